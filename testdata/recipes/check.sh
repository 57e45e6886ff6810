#!/usr/bin/env bash
# What of the recipes can be tried on any machine, in seconds: run by
# `./build.sh test recipes`. README.md tells what was tried beyond it.
#
#   check.sh LMRUN IMAGE.lmb DIR
#
# LMRUN checks signatures (build tag signed); lminit and lm are next to it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lmrun=$1 image=$2 dir=$3
rm -rf "$dir" && mkdir -p "$dir/bin" "$dir/data" "$dir/tmp"
install "$lmrun" "$dir/bin/lmrun"
install "$(dirname "$lmrun")/lminit" "$(dirname "$lmrun")/lm" "$dir/bin"
install "$here/update/lightmetal-place" "$dir/bin"
export PATH=$dir/bin:$PATH TMPDIR=$dir/tmp
fail() { echo "$*" >&2; exit 1; }
same() { cmp "$1" "$2" || fail "$3"; }

place() {
	local data=$dir/data/model.lmb
	head -c 500 "$image" >"$dir/cut.lmb"
	lightmetal-place "$image" "$data"
	same "$data" "$image" "the first image was not placed"
	! lightmetal-place "$dir/cut.lmb" "$data" 2>"$dir/refusal" || fail "a cut image was placed"
	grep -q "bad image" "$dir/refusal" || fail "refused for another reason: $(cat "$dir/refusal")"
	same "$data" "$image" "a refused image took the place"
	[[ $(ls "$dir/data") == model.lmb ]] || fail "a refused image left files: $(ls "$dir/data")"
	# Another file of the same contents: which one is where, the inode tells.
	local first=$(stat -c %i "$data")
	lightmetal-place "$image" "$data"
	[[ $(stat -c %i "$data.previous") == "$first" && $(stat -c %i "$data") != "$first" ]] ||
		fail "the previous image was not kept"
	lightmetal-place --back "$data"
	[[ $(stat -c %i "$data") == "$first" && $(ls "$dir/data") == model.lmb ]] ||
		fail "the previous image did not come back"
	! lightmetal-place "$image" "$data" "$dir/none.pub" 2>/dev/null ||
		fail "an image was placed without its key"
}

# An update is killed before each of its steps, one after the other. The old image or the new one
# must be in place, complete, and the update must succeed when it is started again.
power_cut() {
	local step data=$dir/cut/model.lmb steps=$dir/steps tool
	mkdir -p "$steps" "$dir/cut"
	for tool in cp sync ln mv lmrun rm; do
		local program
		program=$(type -P "$tool")
		cat >"$steps/$tool" <<-END
			#!/bin/sh
			echo >>"$dir/count"
			[ "\$(wc -l <"$dir/count")" -lt "\$CUT_AT" ] || kill -9 \$PPID
			[ "\$(wc -l <"$dir/count")" -lt "\$CUT_AT" ] || exit 1
			exec "$program" "\$@"
		END
		chmod +x "$steps/$tool"
	done
	cp "$image" "$dir/new.lmb"
	for ((step = 1; step <= 100; step++)); do
		rm -rf "$dir/cut" "$dir/count" && mkdir "$dir/cut"
		lightmetal-place "$image" "$data"
		local old new
		old=$(stat -c %i "$data")
		local ended=0
		(
			CUT_AT=$step PATH=$steps:$PATH lightmetal-place "$dir/new.lmb" "$data" || exit 1
		) 2>/dev/null || ended=1
		lmrun -check "$data" >/dev/null || fail "cut before step $step: no valid image"
		new=$(stat -c %i "$data")
		[[ $ended != 0 || $new != "$old" ]] || fail "a complete update placed nothing"
		[[ $new == "$old" || ! -e $data.part ]] || fail "cut before step $step: left a part"
		[[ $new == "$old" || $(stat -c %i "$data.previous") == "$old" ]] ||
			fail "cut before step $step: the previous image is lost"
		lightmetal-place "$dir/new.lmb" "$data" || fail "cut before step $step: no second update"
		[[ $(cd "$dir/cut" && echo *) == "model.lmb model.lmb.previous" ]] ||
			fail "cut before step $step: files are left"
		[[ $ended != 0 ]] || break
	done
	((step > 6 && step < 100)) || fail "an update has $step steps"
	echo "power_cut: killed before each of $((step - 1)) steps"
}

# Images of a lower version than LIGHTMETAL_AT_LEAST are not placed, nor brought back.
no_way_back() {
	local version data=$dir/version.lmb key=$dir/release.pem
	lm sign --new-key "$key" >/dev/null
	for version in 3 4; do
		lm sign --key "$key" --version $version -o "$dir/v$version.lmb" "$image" >/dev/null
	done
	lightmetal-place "$dir/v3.lmb" "$data" "$key.pub"
	LIGHTMETAL_AT_LEAST=4 lightmetal-place "$dir/v4.lmb" "$data" "$key.pub"
	! LIGHTMETAL_AT_LEAST=4 lightmetal-place "$dir/v3.lmb" "$data" "$key.pub" \
		2>"$dir/refusal" || fail "version 3 was placed"
	grep -q "at least version 4" "$dir/refusal" || fail "rejected for another reason"
	! LIGHTMETAL_AT_LEAST=4 lightmetal-place --back "$data" "$key.pub" 2>/dev/null ||
		fail "version 3 came back"
	same "$data" "$dir/v4.lmb" "version 4 did not stay"
	LIGHTMETAL_AT_LEAST=3 lightmetal-place --back "$data" "$key.pub"
	same "$data" "$dir/v3.lmb" "version 3 did not come back, although it may"
	# The same with the counter that lmrun keeps.
	local counter=$dir/counter
	lmrun -check -key "$key.pub" -version-counter "$counter" "$dir/v3.lmb" >/dev/null ||
		fail "version 3 was rejected before any version ran"
	[[ ! -e $counter ]] || fail "a check has raised the counter"
	echo 4 >"$counter"
	lmrun -check -key "$key.pub" -version-counter "$counter" "$dir/v4.lmb" >/dev/null ||
		fail "version 4 was rejected"
	! lmrun -check -key "$key.pub" -version-counter "$counter" "$dir/v3.lmb" \
		>/dev/null 2>"$dir/refusal" || fail "version 3 was accepted after version 4 ran"
	grep -q "at least version 4" "$dir/refusal" || fail "rejected for another reason"
}

unit() {
	local service=$dir/lightmetal.service
	sed "s|/usr/bin/lminit|$dir/bin/lminit|" "$here/systemd/lightmetal.service" >"$service"
	systemd-analyze verify "$service"
	# In tenths; 10 is no protection at all.
	systemd-analyze security --offline=yes --threshold=20 "$service" >"$dir/security" ||
		fail "$(tail -1 "$dir/security")"
	tail -1 "$dir/security"
}

# The unit runs under systemd, with an lmrun that fails, and lminit takes its steps.
unit_steps() {
	local status=0
	"$here/systemd/climb.sh" "$dir/bin/lminit" "$dir/climb" || status=$?
	[[ $status == 0 || $status == 97 ]] || fail "systemd/climb.sh failed"
	[[ $status == 0 ]] || echo "unit_steps: skipped on this machine"
}

keys() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/key.pem" -out "$dir/cert.pem" \
		-days 1 -subj /CN=test -addext extendedKeyUsage=emailProtection 2>/dev/null
}

# A bundle is built and read, and its hook called as RAUC calls it.
rauc_bundle() {
	mkdir "$dir/bundle"
	install "$here/update/rauc/hook" "$here/update/rauc/manifest.raucm" "$dir/bundle"
	cp "$image" "$dir/bundle/model.img"
	rauc --cert="$dir/cert.pem" --key="$dir/key.pem" bundle "$dir/bundle" "$dir/model.raucb" \
		>"$dir/rauc.log" 2>&1 || fail "$(cat "$dir/rauc.log")"
	rauc --keyring="$dir/cert.pem" info "$dir/model.raucb" >"$dir/rauc.info" 2>/dev/null ||
		fail "the bundle cannot be read"
	grep -q "Hooks:  *install" "$dir/rauc.info" || fail "the bundle has no hook"
	RAUC_IMAGE_NAME=$image RAUC_SLOT_DEVICE=$dir/data/hook.lmb "$dir/bundle/hook" slot-install
	same "$dir/data/hook.lmb" "$image" "the hook placed nothing"
	! RAUC_IMAGE_NAME=$dir/cut.lmb RAUC_SLOT_DEVICE=$dir/data/hook.lmb \
		"$dir/bundle/hook" slot-install 2>/dev/null || fail "the hook took a cut image"
}

# An update is packed and verified, and its script run.
swupdate_file() {
	local from=$here/update/swupdate to=$dir/swu
	mkdir "$to" && cd "$to"
	sed "s|/data/lightmetal|$dir/data|g" "$from/place.sh" >place.sh
	cp "$image" model.lmb
	sed "s|/data/lightmetal|$dir/data|
		s/@SHA256@/$(sha256sum model.lmb | cut -c1-64)/
		s/@SHA256_PLACE@/$(sha256sum place.sh | cut -c1-64)/" \
		"$from/sw-description" >sw-description
	openssl cms -sign -in sw-description -out sw-description.sig -signer "$dir/cert.pem" \
		-inkey "$dir/key.pem" -outform DER -nosmimecap -binary
	printf '%s\n' sw-description sw-description.sig model.lmb place.sh |
		cpio -o -H crc >../model.swu 2>/dev/null
	# What it says counts: it can say that all is well and then fall over its own threads.
	local log=$dir/swupdate.log
	timeout 60 swupdate -H board:1.0 -k "$dir/cert.pem" -c -i ../model.swu >"$log" 2>&1 || true
	grep -q 'SWUPDATE successful' "$log" && ! grep -q 'ERROR' "$log" || fail "$(cat "$log")"
	cp "$image" "$dir/data/model.lmb.new" && sh place.sh
	same "$dir/data/model.lmb" "$image" "the script placed nothing"
	cp "$dir/cut.lmb" "$dir/data/model.lmb.new"
	! sh place.sh 2>/dev/null || fail "the script took a cut image"
	[[ ! -e $dir/data/model.lmb.new ]] || fail "the script left what it was given"
	cd "$dir"
}

for check in place power_cut no_way_back unit unit_steps keys rauc_bundle swupdate_file; do
	$check
	[[ $check == keys ]] || echo "$check: good"
done
