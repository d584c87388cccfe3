# shellcheck shell=bash
# What start.sh and stop.sh share.
STATE=/var/lib/hindsight-slurm
# Where SLURM looks by itself: the executor's job steps know no other place.
CONF=/etc/slurm/slurm.conf
GRES=/etc/slurm/gres.conf
MARK="# written by hindsight's tests/slurm/start.sh"

say() { printf 'test-slurm: %s\n' "$*"; }
ours() { grep -qsF "$MARK" "$CONF"; }

within() { # within SECONDS COMMAND...: wait until it succeeds
  local tries=$(($1 * 10))
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}

failed() { # say why, show the daemons' last words
  say "$*"
  tail -n 5 "$STATE"/log/*.log
  exit 1
}
