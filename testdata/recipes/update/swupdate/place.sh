#!/bin/sh
# Run by SWUpdate when model.lmb.new is written. An error makes the update fail,
# and the image in use stays.
set -eu
trap 'rm -f /data/lightmetal/model.lmb.new' EXIT
lightmetal-place /data/lightmetal/model.lmb.new /data/lightmetal/model.lmb ${LIGHTMETAL_KEY:-}
