#!/usr/bin/env bash
# A CPython 3.14 of Debian's (unstable), unpacked into a folder, for Linux systems that have none:
#
#   tools/python314.sh build/python3.14        # needs apt-get, dpkg and pip; changes no system file
#   build/python3.14/usr/bin/python3.14 -m venv --without-pip .venv-3.14
set -euo pipefail
root=$(mkdir -p "${1:?the folder}" && cd "$1" && pwd)
arch=$(dpkg --print-architecture)
apt=$root/.apt
mkdir -p "$apt"/state/lists/partial "$apt"/cache/archives/partial "$apt/etc"
touch "$apt/status"
echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian sid main" >"$apt/etc/sources.list"
get() {
    apt-get -qq -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" \
        -o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/etc/sources.list" \
        -o Dir::Etc::sourceparts=- \
        -o APT::Architecture="$arch" -o APT::Architectures="$arch" "$@"
}
get update
get install --download-only --no-install-recommends python3.14 libpython3.14-dev python3.14-venv
for package in "$apt"/cache/archives/*.deb; do
    dpkg -x "$package" "$root"
done
# Debian's C library is newer than the system's: the interpreter is started by its own loader.
program=$root/usr/bin/python3.14
libraries=$(dirname "$(find "$root/usr/lib" -name libc.so.6 | head -1)")
loader=$(find "$libraries" -name 'ld-linux*' | head -1)
mv "$program" "$program.real"
cat >"$program" <<END
#!/bin/sh
exec "$loader" --library-path "$libraries" --argv0 "\$0" "$program.real" "\$@"
END
chmod +x "$program"
rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
rm -rf "$apt"
"$root/usr/bin/python3.14" -VV
