#!/bin/bash
# Bakes costguard into the image that this machine becomes: installs it from a release, proves that the service starts, and
# leaves nothing of this machine behind, so that every machine started from the image is one of its own.
# Packer runs it as root; so may any other builder.
#
#   bake.sh --extra CLOUD --release FOLDER [--config FILE] [--air-gapped]
#
# FOLDER is what `make release` makes. With wheels/ in it (`make wheels`) no package index is asked, and --air-gapped refuses
# one without. With python.tar.gz in it that is costguard's interpreter. provision.sh lies beside this script.
set -euo pipefail
umask 022
pretend=/run/costguard-bake
drop_in=/etc/systemd/system/costguard.service.d/bake.conf # doctor judges what the next boot reads

say() { echo "costguard: $*"; }
fail() {
  echo "costguard: NOT BAKED: $*" >&2
  exit 3
}
finish() {
  local code=$?
  unpretend
  case $code in
    0 | 3) ;;
    *) echo "costguard: NOT BAKED: a step failed with code $code; see above" >&2 ;;
  esac
}

installed() {
  local wheel words
  [ -f "$release/SHA256SUMS" ] || fail "$release is no release: \`make release\` makes one"
  (cd "$release" && sha256sum --check --quiet --strict --ignore-missing SHA256SUMS >&2) || fail "$release has other files than its SHA256SUMS says"
  wheel=$(sed -n 's/^[0-9a-f]\{64\}  \(costguard_agent-[^/]*\.whl\)$/\1/p' "$release/SHA256SUMS")
  [ -f "$release/${wheel:-none}" ] || fail "$release has no wheel of costguard"
  words=(--extra "$extra" --bake --wheel "$release/$wheel" --sha256 "$(sum "$release/$wheel")")
  if [ -d "$release/wheels" ]; then
    words+=(--wheels "$release/wheels")
  elif [ -n "$air_gapped" ]; then
    fail "$release has no wheels/: \`make wheels CLOUD=$extra\` puts there what costguard needs"
  fi
  [ ! -f "$release/python.tar.gz" ] || words+=(--python "$release/python.tar.gz" --python-sha256 "$(sum "$release/python.tar.gz")")
  [ -z "$config" ] || words+=(--config "$(base64 -w 0 "$config")")
  PIP_NO_CACHE_DIR=1 bash "$here/provision.sh" "${words[@]}" || fail "provision.sh could not install it; see above"
}

sum() { sha256sum "$1" | cut -d' ' -f1; }

# The guard starts under its unit, with a card on the bus that nobody can read: such a GPU is unknown, so nothing is ever due,
# and a dry run does nothing anyway. It knows no cloud meanwhile, and sends nothing.
proven() {
  local card=$pretend/bus/pci/devices/0000:01:00.0
  costguard config check || fail "its configuration does not hold"
  mkdir -p "$card" "${drop_in%/*}"
  echo 0x10de >"$card/vendor"
  echo 0x030000 >"$card/class"
  printf '[Service]\nEnvironment=COSTGUARD_HOST__SYSFS=%s COSTGUARD_MODE=dry-run\n' "$pretend" >"$drop_in"
  systemctl daemon-reload
  if ! systemctl restart costguard.service; then
    journalctl --no-pager --lines 30 --unit costguard.service >&2 || true
    fail "the service does not start"
  fi
  COSTGUARD_HOST__SYSFS=$pretend COSTGUARD_MODE=dry-run costguard doctor || true # for people: without a GPU it is NOT GUARDED
  (COSTGUARD_HOST__SYSFS=$pretend COSTGUARD_MODE=dry-run costguard doctor --json || true) | "$(interpreter)" -I -c "$judge" ||
    fail "doctor finds what would keep a machine of this image from being guarded"
  systemctl stop costguard.service
  unpretend
  systemctl daemon-reload
  say "the service started, and starts at each boot"
}

unpretend() {
  rm -rf "$pretend" "$drop_in"
  rmdir "${drop_in%/*}" 2>/dev/null || true # an owner's own drop-ins stay
}

interpreter() { echo "$(dirname "$(readlink -f "$(command -v costguard)")")/python"; }

# What an image must have: doctor's other sections are about GPUs, the cloud and people, which only its machines have. Live
# mode may need more than its dry run does.
judge='
import json, sys
told = json.load(sys.stdin)
bad = [one["text"] for title in ("Package", "Configuration", "After a boot") for one in told["sections"][title] if one["level"] == "bad"]
wrong = [text for text in bad if not text.startswith("it would not start in live mode")]
wrong += [] if told["agent"] else ["no agent answers"]
sys.exit("; ".join(wrong) or 0)
'

# Two machines with one identity would take each other for themselves, or share a secret.
forgotten() {
  local old
  old=$(cat /etc/machine-id 2>/dev/null || true)
  rm -rf /var/lib/costguard /run/costguard /opt/costguard/.provisioned
  [ ! -e /etc/machine-id ] || : >/etc/machine-id # empty: the first boot writes a new one
  systemctl stop systemd-random-seed.service || true # it would save another one when this machine is switched off
  rm -f /var/lib/dbus/machine-id /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
  journalctl --relinquish-var || true # else it goes on in a new file there until this machine is off
  [ -z "$old" ] || rm -rf "/var/log/journal/$old"
  rm -f /var/lib/dhcp/*.leases
  if command -v cloud-init >/dev/null; then
    cloud-init clean --logs
    rm -f /etc/hostname # it writes the one of each machine
  fi
  if command -v cloud-init >/dev/null || command -v google_guest_agent >/dev/null; then
    rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub # these make new ones at the first boot
  fi
  if [ "$extra" = azure ] && command -v waagent >/dev/null; then
    waagent -force -deprovision+user # the builder's own user, too
  fi
  sync
  say "baked: nothing of this machine is left in the image"
}

main() {
  local extra='' release='' config='' air_gapped='' here
  trap finish EXIT
  here=$(cd "$(dirname "$0")" && pwd)
  while [ $# -gt 0 ]; do
    case $1 in
      --air-gapped) air_gapped=1 && shift && continue ;;
      --extra | --release | --config) [ $# -ge 2 ] || fail "$1 has no value" ;;
      *) fail "unknown argument $1" ;;
    esac
    case $1 in
      --extra) extra=$2 ;; --release) release=$2 ;; --config) config=$2 ;;
    esac
    shift 2
  done
  case $extra in aws | gcp | azure) ;; *) fail "--extra is aws, gcp or azure" ;; esac
  [ -n "$release" ] || fail "--release is missing: the folder that \`make release\` made"
  [ "$(id -u)" = 0 ] || fail "it must run as root"
  release=$(realpath "$release")
  [ -z "$config" ] || config=$(realpath "$config")
  cd / # Python must find no module in whatever folder this was started from
  PATH=$PATH:/usr/local/bin # not in that of sudo on Amazon Linux
  installed
  proven
  forgotten
}

main "$@" </dev/null
