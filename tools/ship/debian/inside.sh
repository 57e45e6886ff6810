#!/usr/bin/env bash
# Runs as a service of the Debian that trial.sh boots, and tries lightmetal.service as a user would.
set -euo pipefail
set -v
model=/var/lib/lightmetal/model.lmb
trap 'journalctl --no-pager -u lightmetal' EXIT

# replays PROGRAM succeeds if a process runs the program.
replays() { { cat /proc/[0-9]*/comm 2>/dev/null || true; } | grep -x "$1"; }

# not COMMAND... succeeds if a command fails.
not() { if "$@"; then return 1; fi; }

# failed succeeds if the service has failed.
failed() { [[ $(systemctl show -P ActiveState lightmetal) == failed ]]; }

# wait_until COMMAND... waits at most 20 s until a command succeeds.
wait_until() {
	for _ in {1..100}; do
		! "$@" 2>/dev/null || return 0
		sleep 0.2
	done
	return 1
}

lminit -check -config /etc/lightmetal/lmrun.conf
systemctl enable --now lightmetal
wait_until replays lmrun-signed
lmrun-signed -check -key /etc/lightmetal/release.pem.pub $model
cmp -n 4 -i 8:0 /sys/bus/pci/devices/*/resource0 /trial/twelve

# Only a signed image takes the place; the new one runs after a restart.
not lightmetal-place /trial/unsigned.lmb $model /etc/lightmetal/release.pem.pub
lightmetal-place /trial/2.lmb $model /etc/lightmetal/release.pem.pub
systemctl restart lightmetal
wait_until replays lmrun-signed
systemctl stop lightmetal
not replays lmrun-signed
[[ $(systemctl show -P Result lightmetal) == success ]]

# Not signed: the service does not start, and systemd does not try again.
cp /trial/unsigned.lmb $model
systemctl start lightmetal || true
wait_until failed
sleep 1
[[ $(systemctl show -P NRestarts lightmetal) == 0 ]]
journalctl --no-pager -u lightmetal | grep "the file is not signed"

# Without a line `key`, the other program replays it.
sed -i '/^key/d' /etc/lightmetal/lmrun.conf
systemctl restart lightmetal
wait_until replays lmrun
dpkg --purge lightmetal lightmetal-dev lightmetal-tools lightmetal-doc
not replays lmrun
[[ -z $(find / -xdev -path /trial -prune -o -name '*lightmetal*' -print |
	grep -v -e '^/etc/lightmetal$' -e '^/var/lib/lightmetal$' -e /var/log) ]]
[[ -e $model ]]
