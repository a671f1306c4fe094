#!/usr/bin/env bash
# Run `make demo` and `make test` on a machine that has only python3, python3-venv, make and git, or the executable on a
# machine without Python.
#
#   tests/fresh/run.sh [--suite SUITE] [--python PREFIX] [--root] [TARGET …]
#   tests/fresh/run.sh [--suite SUITE] [--root] --executable FILE
#
# The machine is a Debian that debootstrap installs in a temporary folder. A user with an empty home runs the targets
# (default: demo test) in a clone of the HEAD of this repository. The exit code is that of the first target that fails.
#
#   --executable FILE the file that `make executable` has written: run executable.sh with it, without Python
#   --suite SUITE     the release of Debian (default: bookworm)
#   --python PREFIX   an installed Python, with bin/python3, that is copied to the machine
#   --root            the targets run as root, not as an unprivileged user
#
# Processes and mounts are in namespaces of their own. They end with this script, also after Ctrl-C.
set -euo pipefail

fail() { echo "fresh: $1" >&2; exit 2; }

suite=bookworm python='' user=1000 executable=''
while [ $# -gt 0 ]; do
    case $1 in
        --suite) suite=${2:?--suite needs a release}; shift 2 ;;
        --python) python=${2:?--python needs a folder}; shift 2 ;;
        --executable) executable=${2:?--executable needs a file}; shift 2 ;;
        --root) user=0; shift ;;
        -*) fail "unknown option $1" ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || fail "debootstrap and chroot need root"
for tool in debootstrap unshare git; do command -v "$tool" > /dev/null || fail "$tool is not installed"; done
[ -z "$python" ] || [ -x "$python/bin/python3" ] || fail "$python/bin/python3 does not exist"
[ -z "$executable" ] || [ -x "$executable" ] || fail "$executable is not an executable"
repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)

work=$(mktemp -d)
root=$work/root
child=''
clean_up() {
    [ -z "$child" ] || kill -KILL "$child" 2> /dev/null || true
    wait
    # The processes of the namespace may need a moment to end.
    rm -rf --one-file-system "$work" 2> /dev/null || { sleep 1; rm -rf --one-file-system "$work"; }
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Run a command in new namespaces. bash runs its traps during `wait`, but not during a command in the foreground.
# With `set -m`, the command does not inherit an ignored SIGINT.
isolated() {
    set -m
    unshare --mount --pid --fork --kill-child -- "$@" < /dev/null &
    child=$!
    set +m
    wait "$child"
    child=''
}

packages=python3,python3-venv,make,git,ca-certificates
[ -z "$executable" ] || packages=tmux
echo "fresh: Debian $suite with $packages"
isolated debootstrap --variant=minbase --include="$packages" "$suite" "$root" \
    > "$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }

# The names of hosts, the certificates and the settings of pip are those of this machine.
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    [ ! -e "$file" ] || [ ! -d "$root${file%/*}" ] || cp -L "$file" "$root$file"
done
variables=()
for name in $(compgen -e); do
    case $name in
        PIP_FIND_LINKS) ;;  # a folder of this machine
        PIP_* | SSL_CERT_FILE | HTTP_PROXY | HTTPS_PROXY | NO_PROXY | http_proxy | https_proxy | no_proxy)
            variables+=("$name=${!name}") ;;
    esac
done
path=/usr/bin:/bin
if [ -n "$python" ]; then
    cp -aL "$python" "$root/opt/python"
    echo /opt/python/lib > "$root/etc/ld.so.conf.d/python.conf"  # libpython, if it is a shared library
    chroot "$root" ldconfig
    path=/opt/python/bin:$path
fi
mkdir "$root/home/user"
echo user:x:1000:1000::/home/user:/bin/sh >> "$root/etc/passwd"
if [ -n "$executable" ]; then
    cp "$executable" "$root/usr/local/bin/pcli"
    mkdir "$root/home/user/pcli" "$root/full" "$root/readonly"
    cp -r "$repository/tests/captures" "$repository/tests/fresh/executable.sh" "$root/home/user/pcli"
    path=/usr/local/bin:$path
else
    git clone --quiet --no-local "$repository" "$root/home/user/pcli"
fi
chown -R "$user:$user" "$root/home/user"

machine() {
    isolated bash -euc '
        root=$1 user=$2
        shift 2
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
        [ ! -d "$root/full" ] || mount -t tmpfs -o size=20m tmpfs "$root/full"
        [ ! -d "$root/readonly" ] || mount -t tmpfs -o ro tmpfs "$root/readonly"
        exec chroot --userspec="$user:$user" "$root" "$@"' bash "$root" "$user" \
        /usr/bin/env -i HOME=/home/user PATH="$path" ${variables[@]+"${variables[@]}"} \
        sh -euc 'cd ~/pcli; "$@"' sh "$@"
}
if [ -n "$executable" ]; then
    machine bash executable.sh
    exit
fi
machine python3 --version
for target in "$@"; do
    echo "fresh: make $target"
    machine make "$target"
done
