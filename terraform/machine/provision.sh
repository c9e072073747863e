#!/bin/bash
# Puts costguard on this machine: an interpreter, costguard in an environment of its own, its service, its configuration.
# Terraform's user data ends with this text; an image build runs it as a file. It may run at each boot: it changes only
# what has changed. Ubuntu 22.04 and 24.04, Debian 12, Amazon Linux 2023; no Python of the system is changed.
#
#   provision.sh --extra CLOUD [--wheel FROM --sha256 SUM] [--wheels FROM [--wheels-sha256 SUM]]
#                [--python FROM --python-sha256 SUM] [--config BASE64] [--bake]
#
# FROM is an https:// address or an absolute path. Without --wheel costguard is here already. --wheels (a .tar.gz or a folder)
# has all that pip needs, and then no index is asked; with a pip in it a Python without one will do. --bake enables the service and does not start it: for an image.
# PROVISION_ROOT puts a folder before every path, for tests.
set -euo pipefail
umask 022
root=${PROVISION_ROOT:-}
home=$root/opt/costguard
etc=$root/etc/costguard
work=

say() { echo "costguard: $*"; }
fail() {
  echo "costguard: NOT PROVISIONED: $*" >&2
  exit 3
}
# Whatever ends this script too early is said under the same words.
finish() {
  local code=$?
  [ -z "$work" ] || rm -rf "$work"
  case $code in
    0 | 3) ;;
    *) echo "costguard: NOT PROVISIONED: a step failed with code $code; see above" >&2 ;;
  esac
}

# fetched FROM TO: at a first boot the network, or its names, may come later than this; and cloud-init runs this only once.
fetched() {
  local pause
  for pause in 1 2 4 8 16 32 ''; do
    if command -v curl >/dev/null; then
      curl --fail --silent --show-error --location --proto =https --proto-redir =https --max-time 900 --output "$2" "$1"
    else
      python3 -I -c 'import sys, shutil, urllib.request as r; shutil.copyfileobj(r.urlopen(sys.argv[1], timeout=60), open(sys.argv[2], "wb"))' "$1" "$2"
    fi && return
    [ -z "$pause" ] || sleep "$pause"
  done
  return 1
}

# fetch FROM SUM TO: nothing is used whose checksum is another one.
fetch() {
  case $1 in
    https://*) fetched "$1" "$3" || fail "$1 cannot be fetched" ;;
    /*) cp -- "$1" "$3" || fail "there is no $1 on this machine" ;;
    *) fail "$1 is neither an https:// address nor an absolute path" ;;
  esac
  [ "$(sha256sum "$3" | cut -d' ' -f1)" = "$2" ] || fail "$1 has another checksum than $2"
}

# An interpreter is new enough, and can make an environment; that of Debian and Ubuntu has no pip without another package.
fits() {
  "$1" -I -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || return
  [ -n "$pip" ] || "$1" -I -c 'import ensurepip' 2>/dev/null
}

interpreter() {
  local name path own
  if [ -n "$python" ]; then
    own=$home/python-${python_sha:0:12}
    path=$(find "$own" -path '*/bin/python3' 2>/dev/null | head -n 1)
    if [ -z "$path" ]; then
      fetch "$python" "$python_sha" "$work/python.tar.gz"
      rm -rf "$own" "$own.new"
      mkdir -p "$own.new"
      tar -xzf "$work/python.tar.gz" --no-same-owner -C "$own.new" || fail "$python is no .tar.gz"
      mv "$own.new" "$own" # whole, or not there
      path=$(find "$own" -path '*/bin/python3' | head -n 1)
    fi
    fits "$path" || fail "$python has no bin/python3 of version 3.11 or newer with venv"
    echo "$path"
    return
  fi
  for name in python3.13 python3.12 python3.11 python3; do
    path=$(command -v "$name") && fits "$path" && echo "$path" && return
  done
  return 1
}

# The distribution's own packages, beside the system's Python.
distribution_python() {
  local version
  if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5 update
    for version in 3.13 3.12 3.11; do
      if apt-cache show "python$version-venv" >/dev/null 2>&1; then
        apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5 install --no-install-recommends "python$version-venv" && return
      fi
    done
  elif command -v dnf >/dev/null; then
    dnf -q -y install python3.11 python3.11-pip && return
  fi
  return 1
}

# Where pip finds what costguard needs, and that pip itself where it lies there.
libraries() {
  local place depth=1
  case $wheels in
    '') return ;;
    *.tar.gz)
      fetch "$wheels" "$wheels_sha" "$work/wheels.tar.gz"
      mkdir "$work/wheels"
      tar -xzf "$work/wheels.tar.gz" --no-same-owner -C "$work/wheels" || fail "$wheels is no .tar.gz"
      from=(--no-index)
      while read -r place; do from+=(--find-links "$place"); done < <(find "$work/wheels" -type d)
      place=$work/wheels depth=9
      ;;
    *)
      [ -d "$wheels" ] || fail "there is no folder $wheels on this machine"
      from=(--no-index --find-links "$wheels")
      place=$wheels
      ;;
  esac
  pip=$(find "$place" -maxdepth "$depth" -name 'pip-*.whl')
}

# Each version in a folder of its own, whose name says what is in it: an upgrade is made beside the one that runs.
environment() {
  local python3 folder pip='' from=() with=(-m pip)
  folder=$home/versions/$(echo "$sha $extra $wheels $wheels_sha $python_sha" | sha256sum | cut -c1-12)
  if [ ! -e "$folder/complete" ]; then
    # First: this waits for a network, and the distribution's packages do not.
    fetch "$wheel" "$sha" "$work/${wheel##*/}"
    libraries
    [ -z "$pip" ] || with=("$pip/pip") # a wheel of pip runs as it is
    if ! python3=$(interpreter); then
      [ -z "$python" ] || exit 3 # said already
      distribution_python >&2 && python3=$(interpreter) ||
        fail "no Python 3.11 or newer with venv here, nor in this distribution: name one with --python"
    fi
    rm -rf "$folder"
    mkdir -p "$home/versions"
    "$python3" -I -m venv ${pip:+--without-pip} "$folder" || fail "$python3 makes no environment"
    "$folder/bin/python" -I "${with[@]}" install --quiet --disable-pip-version-check --no-input --retries 10 "${from[@]}" "$work/${wheel##*/}[$extra]" ${pip:+pip} ||
      fail "pip could not install costguard; see above"
    touch "$folder/complete"
    say "installed in $folder"
  fi
  costguard=$folder/bin/costguard
}

# As by hand: the unit with this very interpreter, completions, the link in /usr/local/bin, and a list for `uninstall`.
service() {
  local said
  said=$("$costguard" install --no-start ${root:+--root "$root"}) || fail "$costguard could not make itself a service; see above"
  sed -n '/^Changed/p; /^Only root/p' <<<"$said" # what somebody has changed on this machine, and stays; who cannot run it
}

# The file of this machine. One that somebody has changed since stays; one that does not hold is put beside it.
configuration() {
  local file=$etc/config.toml new=$etc/config.toml.new written=$etc/.provisioned
  [ -n "$config" ] || return 0
  mkdir -p "$etc"
  echo "$config" | base64 -d >"$new" || fail "--config is no base64"
  if cmp -s "$new" "$file"; then
    rm "$new"
  elif [ -e "$written" ] && ! sha256sum --check --status "$written"; then
    say "$file was changed on this machine and stays; what Terraform would write is $new"
    return 0
  elif [ -e "$file" ] && ! "$costguard" config check --config "$new"; then
    fail "the new configuration ($new) does not hold; $file stays"
  else
    if [ -e "$file" ] && [ ! -e "$written" ]; then
      cp -p "$file" "$file.before"
      say "$file was there before, and is now the one of this machine's user data; what it said is in $file.before"
    fi
    mv "$new" "$file"
  fi
  sha256sum "$file" >"$written"
}

main() {
  local extra= wheel= sha= wheels= wheels_sha= python= python_sha= config= bake= costguard state
  case ${1:-} in -h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    return
    ;;
  esac
  trap finish EXIT
  cd / # Python must find no module in whatever folder this was started from
  while [ $# -gt 0 ]; do
    case $1 in
      --bake) bake=1 && shift && continue ;;
      --extra | --wheel | --sha256 | --wheels | --wheels-sha256 | --python | --python-sha256 | --config) [ $# -ge 2 ] || fail "$1 has no value" ;;
      *) fail "unknown argument $1" ;;
    esac
    case $1 in
      --extra) extra=$2 ;; --wheel) wheel=$2 ;; --sha256) sha=$2 ;; --wheels) wheels=$2 ;; --wheels-sha256) wheels_sha=$2 ;;
      --python) python=$2 ;; --python-sha256) python_sha=$2 ;; --config) config=$2 ;;
    esac
    shift 2
  done
  [ -n "$extra" ] || fail "--extra is missing; allowed: aws, gcp or azure"
  [ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "it must run as root"
  work=$(mktemp -d)

  if [ -n "$wheel" ]; then
    environment
  else
    costguard=$(PATH=$PATH:$root/usr/local/bin && command -v costguard) || fail "costguard is not on this image: name its wheel"
  fi
  configuration # before `install`, which writes one where there is none
  service
  if [ -n "$bake" ]; then
    systemctl enable --quiet costguard.service
    say "baked: the service starts at the first boot"
    return
  fi
  state=$(cat "$etc/config.toml" "$etc"/config.d/*.toml "$root/etc/systemd/system/costguard.service" "$(readlink -f "$costguard")" 2>/dev/null | sha256sum || true) # there may be no configuration
  if [ "$state" = "$(cat "$home/.provisioned" 2>/dev/null)" ]; then
    systemctl start costguard.service || fail "the service does not start: journalctl -u costguard"
    say "unchanged"
    return
  fi
  systemctl enable --quiet costguard.service
  systemctl restart costguard.service || fail "the service does not start: journalctl -u costguard"
  mkdir -p "$home"
  echo "$state" >"$home/.provisioned"
  "$costguard" config check || fail "the configuration does not hold"
  say "the service runs"
}

main "$@" </dev/null
