#!/bin/sh
# Prints what happens to facts and indexes, one JSON object a line, over restarts of the daemon and of itself.
#
#     follow.sh FILE      keeps its place in FILE: what happened while it did not run comes first
#
# Needs socat, or an nc that knows Unix sockets. The cursor is taken out of a line as the daemon writes it, without
# blanks and before anything that a file holds; with jq at hand, use that.
set -u
place=${1:?"the file that keeps the place"}

talk() { # stdin stays open behind the request: whoever stops sending is sent no more events
    if command -v socat >/dev/null; then
        socat -,ignoreeof "UNIX-CONNECT:$1"
    else
        nc -U "$1"
    fi
}

while :; do
    since=
    if [ -s "$place" ]; then
        read -r cursor <"$place"
        case $cursor in
        *:*[!0-9]* | *[!0-9A-Za-z:_-]* | :*) ;; # it would not be a cursor, and might not even be JSON
        *:*) since=",\"since\":\"$cursor\"" ;;
        esac
        if [ -z "$since" ]; then
            printf 'follow.sh: %s holds no cursor: %s\n' "$place" "$cursor" >&2
            exit 1
        fi
    fi
    printf '{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["memory/*"]%s}}\n' "$since" |
        talk "$(zcsyncd status --address)" 2>/dev/null |
        while IFS= read -r line; do
            cursor=${line#*\"cursor\":\"}
            case $line in
            '{"jsonrpc":"2.0","method":"event",'*) printf '%s\n' "$line" ;;
            *'"error":'*) # too many connections, say: the daemon hangs up after it
                printf '%s\n' "$line" >&2
                continue
                ;;
            *) if [ -s "$place" ]; then continue; fi ;; # the answer: where a first run begins
            esac
            printf '%s\n' "${cursor%%\"*}" >"$place"
        done
    sleep 1
done
