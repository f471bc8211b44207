#!/usr/bin/env bash
# A Python of Debian's, of another version or another processor, unpacked into a folder:
#
#   tools/debian_python.sh build/python3.14 3.14           # this processor
#   tools/debian_python.sh build/arm64 3.13 arm64          # runs under QEMU's user mode
#   tools/debian_python.sh build/i386 3.13 i386            # 32-bit; x86-64 processors run it
#
# FOLDER/usr/bin/python3.X then has NumPy, pytest and hypothesis (and ml_dtypes, where a wheel exists).
# It needs apt-get, dpkg and pip, and changes no system file. What cannot be had is said, and it ends
# with 75.
set -euo pipefail
here=$(dpkg --print-architecture 2>/dev/null) || { echo "no dpkg here"; exit 75; }
root=$(mkdir -p "${1:?the folder}" && cd "$1" && pwd)
version=${2:-3.14}
arch=${3:-$here}
python=${PYTHON:-python3}
suite=sid
[ "$version" = 3.13 ] && suite=trixie
[ -e "$root/.done" ] && exit 0

apt=$root/.apt
wanted=("python$version" "libpython$version-dev" libstdc++6)
[ "$arch" = i386 ] && wanted+=(python3-numpy)
rm -rf "${root:?}"/*
tools=$(dirname "$0")
"$tools/debian_packages.sh" "$root" "$suite" "$arch" "${wanted[@]}"

# What NumPy's wheels are called; PyPI has none for 32-bit x86.
case $arch in
amd64) platform=manylinux_2_28_x86_64 packages="numpy ml_dtypes" ;;
arm64) platform=manylinux_2_28_aarch64 packages="numpy ml_dtypes" ;;
*) platform=linux_$arch packages="" ;;
esac
"$python" -m pip install -qq --disable-pip-version-check --target "$root/usr/lib/python3/dist-packages" \
    --platform "$platform" --python-version "$version" --only-binary=:all: --upgrade \
    $packages "pytest>=9" pytest-xdist hypothesis || { echo "no wheels for $platform"; exit 75; }

# Debian's C library is newer than the system's: the interpreter is started by its own loader, and one
# for another processor by QEMU.
program=$root/usr/bin/python$version
[ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
own=$(find "$root/usr/lib" -name 'libc.so.6' -printf '%h\n' | head -1)
folders=$own:$own/blas:$own/lapack
# pyconfig.h is included from the folder of all architectures.
headers=$root/usr/include/python$version
triple=$(basename "$own")
[ -d "$headers/../$triple" ] && ln -sfn "../$triple" "$headers/$triple"
mv "$program" "$program.real"
case $here-$arch in
"$arch-$arch" | amd64-i386)
    loader=$(find "$root/usr/lib" -name 'ld-linux*' | head -1)
    start="\"$loader\" --library-path \"$folders\" --argv0 \"\$0\""
    ;;
*)
    case $arch in
    arm64) processor=aarch64 ;;
    *) processor=$arch ;;
    esac
    qemu=$(command -v "qemu-$processor-static" || command -v "qemu-$processor" || true)
    if [ -z "$qemu" ]; then
        "$tools/debian_packages.sh" "$root/qemu" bookworm "$here" qemu-user-static
        qemu=$root/qemu/usr/bin/qemu-$processor-static
    fi
    start="\"$qemu\" -L \"$root\" -0 \"\$0\" -E \"LD_LIBRARY_PATH=$folders\""
    ;;
esac
cat >"$program" <<SCRIPT
#!/bin/sh
exec $start "$program.real" "\$@"
SCRIPT
chmod +x "$program"
rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
"$program" -c "import sys, platform, numpy; \
print(sys.version.split()[0], platform.machine(), sys.maxsize.bit_length() + 1, 'bits, NumPy', numpy.__version__)"
touch "$root/.done"
