#!/bin/sh
# Packs a release: export.sh ROOT ID KERNEL_WHEEL UV INDEX_OPTION... makes ROOT/wheelhouse/ID.tar.
# pip downloads what uv only unpacks into its cache; every file is held against the lock's hash.
set -eu
root=$1 id=$2 kernel=$3 uv=$4
shift 4
release=$root/releases/$id
mkdir -p "$root/wheelhouse"
cd "$root/wheelhouse"
rm -rf "$id" "$id.tar" "$id.tar.part"
mkdir -p "$id/wheels" "$id/kernel"
cp "$release/requirements.lock" "$release/release.json" "$id/"

# Wheels are chosen for the interpreter that asks, and it brings a pip that knows it.
python=$(readlink -f "$release/venv/bin/python")
pip=$root/wheelhouse/$id.pip
trap 'rm -rf "$pip"' EXIT
rm -rf "$pip"
"$python" -m venv "$pip"
options="--quiet --disable-pip-version-check --no-deps --only-binary=:all:"
echo "Downloading the wheels of the lock"
# shellcheck disable=SC2086 # words of its own
"$pip/bin/python" -m pip download $options "$@" --require-hashes --requirement "$id/requirements.lock" --dest "$id/wheels"
# shellcheck disable=SC2086
"$pip/bin/python" -m pip download $options "$@" "$uv" --dest "$id/wheels"

if [ -n "$kernel" ]; then
    cp -a "$(dirname "$kernel")" "$id/kernel/"
fi
# An interpreter of the host stays with the host; one that uv managed goes along.
case $python in
"$root"/python/*)
    rest=${python#"$root"/python/}
    mkdir "$id/python"
    cp -a "$root/python/${rest%%/*}" "$id/python/"
    ;;
esac

echo "Packing"
cd "$id"
find . -type f ! -name SHA256SUMS -print0 | sort -z | xargs -0 sha256sum >../"$id.sums"
mv ../"$id.sums" SHA256SUMS
# What is read before the rest is unpacked stands first.
# shellcheck disable=SC2046 # python is there or not
tar -cf "../$id.tar.part" requirements.lock release.json SHA256SUMS wheels kernel $([ -d python ] && echo python)
chmod 0644 "../$id.tar.part"
mv "../$id.tar.part" "../$id.tar"
