#!/usr/bin/env bash
# The README's two commands on a bare Debian, as root: what they need, they bring.
#
#   make fresh                      make replicate (preset smoke), then make test
#   make fresh ARGS=replicate       the first alone
#   make fresh ARGS="test tests/test_cli.py"      the second alone, of these tests; of all without
#   make fresh ARGS=docker          the Dockerfile's steps, read from it, and what it says to run
#
# A new root (mmdebstrap) gets a clone of what is committed here, and nothing of this machine but how
# it reaches its registries: the settings of apt and pip, proxies, certificates.
set -euo pipefail
cd "$(dirname "$0")/.."
SUITE=bookworm
WHAT=${1:-both}
shift || true

if ! command -v mmdebstrap >/dev/null; then
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
fi
# The inner run has mounts of its own, which this one never sees: what it deletes in the end is the
# root alone, and nothing of this machine that was mounted into it.
if [ -z "${FRESH_ROOT:-}" ]; then
  ROOT=$(mktemp -d "${TMPDIR:-/tmp}/fresh.XXXXXX")
  status=0
  FRESH_ROOT=$ROOT unshare --mount --propagation private bash "$0" "$WHAT" "$@" || status=$?
  if grep -qF "$ROOT" /proc/self/mountinfo; then
    echo "fresh: something is still mounted below $ROOT, which is left as it is" >&2
    exit 1
  fi
  rm -rf --one-file-system "$ROOT"
  exit "$status"
fi
ROOT=$FRESH_ROOT
took() {
  printf 'fresh: %-12s %4d s\n' "$1" "$((SECONDS - BEGAN))"
  BEGAN=$SECONDS
}
BEGAN=$SECONDS

# -- a bare root -----------------------------------------------------------------------------------
sources=()
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  if [ -f "$list" ] && grep -q "$SUITE" "$list"; then sources+=("$list"); fi
done
options=()
for file in /etc/apt/apt.conf /etc/apt/apt.conf.d/*; do
  if [ -f "$file" ] && grep -q "^ *Acquire" "$file"; then options+=("--aptopt=$file"); fi
done
if [ "$WHAT" != docker ]; then # which brings its own
  options+=(--include=ca-certificates,git,make,python3,python3-venv)
fi
mmdebstrap --quiet --variant=apt "${options[@]}" "$SUITE" "$ROOT" "${sources[@]}"

# -- how this machine reaches its registries -------------------------------------------------------
carry() { # a file or folder to the same place there
  if [ -e "$1" ]; then
    mkdir -p "$ROOT$(dirname "$1")"
    rm -rf "${ROOT:?}$1" # a link there would lead back here
    cp -RL "$1" "$ROOT$1"
  fi
}
for path in /etc/resolv.conf /etc/hosts /etc/pip.conf "$HOME/.config/pip" "$HOME/.pip" \
  /etc/ssl/certs /usr/local/share/ca-certificates; do
  carry "$path"
done
keep=(HOME="$HOME" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
while IFS='=' read -r name value; do
  case "$name" in
    PIP_* | SSL_CERT_* | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE | GIT_SSL_CAINFO | \
      [Hh][Tt][Tt][Pp]_[Pp][Rr][Oo][Xx][Yy] | [Hh][Tt][Tt][Pp][Ss]_[Pp][Rr][Oo][Xx][Yy] | \
      [Nn][Oo]_[Pp][Rr][Oo][Xx][Yy])
      keep+=("$name=$value")
      carry "$value"
      ;;
  esac
done < <(env)
# Folders of packages on this machine, where pip is told of some: to be read only.
for folder in $(cat /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf" 2>/dev/null |
  grep -oE '(file://)?/[^ ,]+' | sed 's,^file://,,' | sort -u); do
  folder=${folder%/}
  folder=${folder%/simple} # the files that its pages link to lie beside it
  if [ -d "$folder" ]; then
    mkdir -p "$ROOT$folder"
    mount --bind "$folder" "$ROOT$folder"
    mount -o remount,bind,ro "$ROOT$folder"
  fi
done
mount --rbind /proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
copy() { git clone --quiet --no-hardlinks . "$ROOT$1"; }
inside() { # a command of a shell in a folder there
  chroot --userspec="$user" "$ROOT" env -i "${keep[@]}" sh -c "cd $1 && $2" </dev/null
}
user=root
took "bare root"

# -- the Dockerfile --------------------------------------------------------------------------------
if [ "$WHAT" = docker ]; then
  at=/
  while read -r step rest; do
    echo "fresh: $step $rest"
    case "$step" in
      FROM) [ "${rest%@*}" = "debian:$SUITE-slim" ] ;;
      RUN) inside "$at" "$rest" ;;
      WORKDIR) at=$rest ;;
      ARG) # as --build-arg does, a variable given here replaces the default
        name=${rest%%=*}
        keep+=("$name=${!name-${rest#*=}}")
        ;;
      COPY)
        [ "$rest" = "--chown=hindsight . ." ]
        git clone --quiet --no-hardlinks . "$ROOT/clone"
        inside / "cp -r clone/. $at && chown -R hindsight $at"
        ;;
      USER)
        user=$rest
        keep+=(HOME="/home/$user")
        ;;
      ENV) keep+=("${rest%%=*}=$(inside / "printf %s ${rest#*=}")") ;;
      CMD) inside "$at" "$(tr -d '[],"' <<<"$rest")" ;;
      *) false ;;
    esac
  done < <(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' -e '/^#/d' Dockerfile)
  took "image"
  inside "$at" "$(sed -n '1s/.*docker run .* hindsight //p' Dockerfile)"
  took "replicate"
  exit
fi

# -- the README's two commands ---------------------------------------------------------------------
copy /hindsight
there() { chroot "$ROOT" env -i "${keep[@]}" make -C /hindsight "$@"; }
there .venv/ready
took "packages"
if [ "$WHAT" = both ] || [ "$WHAT" = replicate ]; then
  there replicate ARGS="--config preset=smoke"
  took "replicate"
fi
if [ "$WHAT" = both ] || [ "$WHAT" = test ]; then
  there test ARGS="$*"
  took "test"
fi
