#!/usr/bin/env bash
# stop.sh: end what start.sh began, jobs included, and remove its configuration and state.
set -euo pipefail
# shellcheck source=tests/slurm/common.sh
source "$(dirname "$0")/common.sh"
[ -d "$STATE" ] || exit 0

end() { # end NAME SECONDS [FOLDER]: terminate the process of our pid file, kill it if it does not end
  local pid
  pid=$(cat "$STATE/${3:-run}/$1.pid" 2>/dev/null) || return 0
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ] || return 0
  kill "$pid"
  within "$2" test ! -e "/proc/$pid" || kill -9 "$pid"
}

if ours && timeout 5 squeue -h >/dev/null 2>&1; then
  squeue -h -o %A | sort -u | xargs -r timeout 10 scancel || true
  empty() { [ -z "$(timeout 5 squeue -h)" ]; }
  within 10 empty || true
fi
end slurmd 10
end slurmctld 15
end slurmdbd 15
end mariadbd 20
end munged 5 munge
for file in "$CONF" "$GRES" /etc/slurm/slurmdbd.conf; do
  ! grep -qsF "$MARK" "$file" || rm -f "$file"
done
rm -rf "$STATE"
say "stopped"
