#!/usr/bin/env bash
# start.sh [--accounting]: a real SLURM on this machine alone, for tests; stop.sh ends it.
# Debian or Ubuntu, as root; neither systemd nor cgroups are needed.  Run again, it starts afresh.
# Exit status 77: not on this machine; it says why (its own SLURM, which is left alone; no root).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/slurm/common.sh
source "$here/common.sh"
accounting=${1:-}
[ -z "$accounting" ] || [ "$accounting" = --accounting ] || { sed -n '2,4p' "$0"; exit 2; }

if ! ours && { [ -e "$CONF" ] || [ -e /etc/slurm-llnl/slurm.conf ] || [ -n "${SLURM_CONF:-}" ] ||
  pgrep -x slurmctld >/dev/null || pgrep -x slurmd >/dev/null || sinfo >/dev/null 2>&1; }; then
  say "this machine has a SLURM of its own, which is left alone"
  exit 77
fi
[ "$(id -u)" = 0 ] || { say "starting SLURM's daemons needs root"; exit 77; }
"$here/stop.sh" >/dev/null

packages=(slurm-wlm munge)
[ -z "$accounting" ] || packages+=(slurmdbd mariadb-server)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # None of the packages' own daemons starts while they are installed.
  policy=/usr/sbin/policy-rc.d
  [ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && trap 'rm -f "$policy"' EXIT; }
  add() { apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1; }
  add || { apt-get update -qq && add; } || { say "cannot install ${missing[*]}"; exit 1; }
fi

mkdir -p "$STATE"/{run,log,controller,node} /etc/slurm
# The node claims at least six processors, so that several jobs run at once on any machine.
cores=$(nproc); [ "$cores" -ge 6 ] || cores=6
memory=$(awk '/^MemTotal/ {print int($2 / 1024)}' /proc/meminfo)
cat > "$CONF" <<END
$MARK
ClusterName=hindsight-test
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits for so long.
AuthInfo=cred_expire=10
CryptoType=crypto/munge
SlurmctldPidFile=$STATE/run/slurmctld.pid
SlurmdPidFile=$STATE/run/slurmd.pid
SlurmctldLogFile=$STATE/log/slurmctld.log
SlurmdLogFile=$STATE/log/slurmd.log
StateSaveLocation=$STATE/controller
SlurmdSpoolDir=$STATE/node
# linuxproc would lose processes when a job is cancelled.
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
# A lost node is noticed within seconds, and comes back by itself.
ReturnToService=2
SlurmdTimeout=10
# Daemons on a machine with much else to do take their time to answer.
MessageTimeout=30
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
# Without cgroups: once a second, what has outgrown its memory is killed.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill,UsePss
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2
KillWait=2
MinJobAge=600
AccountingStorageType=accounting_storage/$([ -z "$accounting" ] && echo none || echo slurmdbd)
$([ -z "$accounting" ] || echo AccountingStorageHost=localhost)
GresTypes=gpu
NodeName=localhost NodeAddr=127.0.0.1 CPUs=$cores RealMemory=$memory Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=INFINITE State=UP
END

# SLURM counts a GPU, whether the machine has one or not: any device will do.
printf '%s\nName=gpu File=/dev/null\n' "$MARK" > "$GRES"

if ! munge -n >/dev/null 2>&1; then
  install -d -o munge -g munge -m 755 /run/munge
  install -d -o munge -g munge -m 700 /var/log/munge /var/lib/munge
  [ -s /etc/munge/munge.key ] || (umask 077; head -c 1024 /dev/urandom > /etc/munge/munge.key)
  chown munge:munge /etc/munge/munge.key
  install -d -o munge -g munge -m 755 "$STATE/munge"
  runuser -u munge -- /usr/sbin/munged --pid-file "$STATE/munge/munged.pid"
  within 10 munge -n || failed "munged does not answer"
fi

if [ -n "$accounting" ]; then
  chown mysql: "$STATE/run"
  mariadb-install-db --no-defaults --user=mysql --datadir="$STATE/database" --skip-test-db >/dev/null 2>&1 ||
    failed "no database can be made"
  cat > "$STATE/init.sql" <<END
CREATE DATABASE slurm_acct_db;
CREATE USER 'slurm'@'127.0.0.1' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';
END
  setsid mariadbd --no-defaults --user=mysql --datadir="$STATE/database" \
    --socket="$STATE/run/mysql.sock" --pid-file="$STATE/run/mariadbd.pid" \
    --bind-address=127.0.0.1 --port=13307 --skip-name-resolve --init-file="$STATE/init.sql" \
    --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 \
    --innodb-flush-log-at-trx-commit=0 </dev/null >"$STATE/log/mariadbd.log" 2>&1 &
  answers() {
    mariadb --no-defaults --protocol=tcp -h127.0.0.1 -P13307 -uslurm -pslurm -e 'select 1' slurm_acct_db
  }
  within 60 answers || failed "the database does not answer"
  (umask 077; cat > /etc/slurm/slurmdbd.conf <<END
$MARK
AuthType=auth/munge
DbdHost=localhost
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=13307
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
LogFile=$STATE/log/slurmdbd.log
PidFile=$STATE/run/slurmdbd.pid
END
  )
  slurmdbd
  within 30 sacctmgr -n list cluster || failed "slurmdbd does not answer"
fi

slurmctld
within 15 scontrol ping || failed "slurmctld does not answer"
slurmd -N localhost
ready() { scontrol ping | grep -q 'is UP' && sinfo -h -o %T | grep -qxE 'idle|mixed|allocated'; }
within 30 ready || failed "the node does not come up: $(sinfo -h -R)"
if [ -n "$accounting" ]; then
  registered() { sacctmgr -n -P list cluster format=cluster,controlhost | grep -q '^hindsight-test|.'; }
  within 30 registered || failed "the cluster does not register with slurmdbd"
fi
say "$(sinfo --version) is up: $(sinfo -h -o '%c processors, %m MB')${accounting:+, with accounting}"
