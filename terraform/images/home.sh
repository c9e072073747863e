#!/bin/bash
# Makes a folder for an image on this computer: a key, user data that lets its owner in, and seed.iso, the same as a disk for the
# machines that are started from the image. Nothing that is there already is changed. Needs ssh-keygen and xorriso.
#
#   home.sh FOLDER
set -euo pipefail
umask 077

main() {
  [ $# = 1 ] || { echo "usage: home.sh FOLDER" >&2 && exit 2; }
  local folder=$1 name
  for name in ssh-keygen xorrisofs; do
    command -v "$name" >/dev/null || { echo "error: $name: not installed; sudo apt install openssh-client xorriso" >&2 && exit 2; }
  done
  mkdir -p "$folder"
  [ -e "$folder/key" ] || ssh-keygen -q -t ed25519 -N '' -C "$(basename "$folder")" -f "$folder/key"
  [ -e "$folder/user-data" ] || printf '#cloud-config\nssh_authorized_keys: ["%s"]\n' "$(cat "$folder/key.pub")" >"$folder/user-data"
  [ -e "$folder/meta-data" ] || printf 'instance-id: %s\n' "$(basename "$folder")" >"$folder/meta-data"
  [ -e "$folder/seed.iso" ] || xorrisofs -quiet -V CIDATA -J -r -o "$folder/seed.iso" "$folder/user-data" "$folder/meta-data"
}

main "$@" </dev/null
