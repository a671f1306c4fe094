#!/bin/sh
# pcli @VERSION@ in one file. An archive follows this script. The first start unpacks it into the cache of the user;
# each start executes pcli there.
offset=@OFFSET@
id=@ID@
megabytes=@MEGABYTES@

fail() { printf 'pcli: %s\n' "$1" >&2; exit 2; }
need="$megabytes MB are needed; XDG_CACHE_HOME can name another folder"

if [ -n "${XDG_CACHE_HOME:-}" ]; then cache=$XDG_CACHE_HOME
elif [ -z "${HOME:-}" ]; then fail "HOME is not set, so there is no folder to unpack into: set XDG_CACHE_HOME"
elif [ -d "$HOME/Library/Caches" ]; then cache=$HOME/Library/Caches
else cache=$HOME/.cache
fi
cache=$cache/pcli/executable

# Only gzip compares the checksum, and the exit code of a pipeline is that of tar. 141: tar has ended.
gunzipped() { gzip -dc 2> /dev/null; case $? in 0|141) ;; *) echo damaged >&2 ;; esac; }

# `mv` into a folder fails if the name exists there, so that of two first starts without `flock` one succeeds.
unpack() (
    for tool in tar gzip; do command -v "$tool" > /dev/null || fail "unpacking needs $tool, which is not installed"; done
    error=$(mkdir -p "$cache" 2>&1) && error=$( (: > "$cache/lock") 2>&1) || fail "$cache: ${error##*: }: $need"
    exec 9> "$cache/lock"
    if command -v flock > /dev/null && flock 9 2> /dev/null; then
        [ ! -f "$cache/$id/pcli" ] || exit 0
        rm -rf "$cache/$id" "$cache/$id".*  # a folder without pcli, and those of first starts that were killed
    fi
    part=$cache/$id.$$
    trap 'rm -rf "$part"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM
    [ ! -t 2 ] || printf 'pcli: unpacking %s MB into %s, once\n' "$megabytes" "$cache" >&2
    error=$({ mkdir "$part" && tail -c "+$offset" "$0" | gunzipped | LC_ALL=C tar -xmof - -C "$part"; } 2>&1)
    case $?:$error in
        *'No space left on device'*) fail "$cache: No space left on device: $need" ;;  # not always the first line of tar
        *damaged*) fail "$0: incomplete or damaged: download or build it again" ;;
        0:*) ;;
        *) error=$(printf '%s\n' "$error" | head -n 1); fail "$cache: ${error##*: }: $need" ;;
    esac
    error=$(mv "$part/$id" "$cache/" 2>&1) || [ -f "$cache/$id/pcli" ] || fail "$cache: ${error##*: }"
)

[ -f "$cache/$id/pcli" ] || unpack || exit
[ -x "$cache/$id/pcli" ] || fail "$cache: no file in it can be executed: XDG_CACHE_HOME can name another folder"
exec "$cache/$id/pcli" "$@"
