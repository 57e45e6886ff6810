# shellcheck shell=bash
# Part of build.sh: fuzzing and simulation.

# print_fuzz_findings prints the inputs that fuzzing has found, by gzip and base64: the machine
# that found them may not be kept.
print_fuzz_findings() {
	local input
	for input in $(git ls-files --others '*/testdata/fuzz/*'); do
		warn "$input, by gzip and base64:"
		gzip -9 <"$input" | base64 >&2
	done
}

# cmd_fuzz DURATION runs every fuzz target for a time such as 10m or a count such as 100000x.
# Minimizing an input is limited: on inputs of some KB it would take the whole time.
cmd_fuzz() {
	local duration=${1:-} package target inputs
	[[ $duration =~ ^[0-9.]+[smhx]$ ]] || { warn "fuzz takes a duration, such as 10m"; exit 64; }
	mkdir -p "$out"
	while read -r package target; do
		say "$package $target"
		go test -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "$duration" \
			-fuzzminimizetime 10x "$package" </dev/null | tee "$out/fuzz.part" ||
			{ print_fuzz_findings; exit 1; }
		inputs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$out/fuzz.part" | tail -1)
		say "fuzzed: $inputs inputs to $package $target" | tee -a "$out/fuzz.log"
	done < <(list_fuzz_targets)
}

# list_fuzz_targets prints the package and the name of every fuzz target. `go test -list` would
# link the tests of all packages for that.
list_fuzz_targets() {
	grep -r --include='*_test.go' --exclude-dir=build '^func Fuzz' . | sort |
		sed -E 's|/[^/]*:func (\w+).*| \1|'
}

# cmd_simulate [DURATION | --break N [SEED]] runs the runner in simulated worlds. If a seed finds
# a fault, it is printed with the command that repeats it.
cmd_simulate() {
	local from
	if [[ ${1:-} == --break && ${2:-} =~ ^[0-9]+$ && ${3:-1} =~ ^[0-9]+$ && $# -le 3 ]]; then
		go run ./tools/check/simulate -mutants "$2" -mutant-seed "${3:-1}" -seeds 2000
		return
	fi
	[[ ${1:-1m} =~ ^[0-9.]+[smh]$ && $# -le 1 ]] || {
		warn "simulate takes a duration, such as 10m, or --break and a number of places"
		exit 64
	}
	from=$(date +%s%3N)
	say "seeds from $from"
	go run ./tools/check/simulate -from "$from" -for "${1:-1m}"
}
