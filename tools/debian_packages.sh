#!/usr/bin/env bash
# Unpacks packages of Debian's, with all that they need, into a folder; changes no system file.
#
#   tools/debian_packages.sh FOLDER SUITE ARCHITECTURE PACKAGES...
#
# Needs apt-get and dpkg. When they or the packages cannot be had, it says so and ends with 75.
set -euo pipefail
command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "no apt-get and dpkg here"; exit 75; }
root=$(mkdir -p "${1:?the folder}" && cd "$1" && pwd)
suite=$2 arch=$3
shift 3
stamp=$root/.unpacked-$(echo "$suite $arch $*" | md5sum | cut -c1-12)
[ -e "$stamp" ] && exit 0
apt=$(mktemp -d "$root/.apt.XXXXXX")
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/state/lists/partial "$apt"/cache/archives/partial "$apt/etc"
touch "$apt/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian $suite main" >"$apt/etc/sources.list"
get() { # apt-get with lists, a cache and an architecture of its own
    apt-get -qq -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" \
        -o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/etc/sources.list" \
        -o Dir::Etc::sourceparts=- -o Debug::NoLocking=1 -o APT::Sandbox::User=root \
        -o APT::Architecture="$arch" -o APT::Architectures="$arch" "$@"
}
if ! get update || ! get install --download-only --no-install-recommends "$@"; then
    echo "Debian's $suite does not give $* for $arch here"
    exit 75
fi
for package in "$apt"/cache/archives/*.deb; do
    dpkg -x "$package" "$root"
done
touch "$stamp"
