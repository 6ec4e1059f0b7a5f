/* python.exe for a python311.dll that came without one: hands the command line to Py_Main. */
#include <windows.h>

typedef int (*entry)(int, wchar_t **);

int wmain(int argc, wchar_t **argv) {
  HMODULE library = LoadLibraryW(L"python311.dll");
  if (library == NULL) return 97;
  entry start = (entry)(void *)GetProcAddress(library, "Py_Main");
  return start == NULL ? 98 : start(argc, argv);
}
