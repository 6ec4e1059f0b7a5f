"""What is put into hosts: the plugins, as files that their hosts load. Pure."""
