#!/usr/bin/env bash
# What of the recipes can be tried on any machine, in seconds: run by
# `./build.sh test recipes`. README.md tells what was tried beyond it.
#
#   check.sh LMRUN IMAGE.lmb DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lmrun=$1 image=$2 dir=$3
rm -rf "$dir" && mkdir -p "$dir/bin" "$dir/data" "$dir/tmp"
install "$lmrun" "$dir/bin/lmrun"
install "$(dirname "$lmrun")/lminit" "$dir/bin/lminit"
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

unit() {
	local service=$dir/lightmetal.service
	sed "s|/usr/bin/lminit|$dir/bin/lminit|" "$here/systemd/lightmetal.service" >"$service"
	systemd-analyze verify "$service"
	# In tenths; 10 is no protection at all.
	systemd-analyze security --offline=yes --threshold=20 "$service" >"$dir/security" ||
		fail "$(tail -1 "$dir/security")"
	tail -1 "$dir/security"
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

for check in place unit keys rauc_bundle swupdate_file; do
	$check
	[[ $check == keys ]] || echo "$check: good"
done
