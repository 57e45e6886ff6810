# shellcheck shell=bash
# Part of build.sh: runs the steps of `test`, collects their logs and prints the summary.

# What `test` and `test nightly` run. Steps of one word of a list run at once; not those whose tests
# count the system calls of a process, to which a busy machine adds some. LM_NIGHTLY=1 makes steps
# of both take longer in the latter.
change_steps=(
	"fmt vet lint gen kernels player" unit "race arm64 purego cross recipes reproducible" guest
	bench
)
nightly_steps=(unit fuzz breaks guest trials coverage package reproducible)

# Names of steps, with details, for the summary.
passed=() failed=() skips=()

# cmd_test [quick | nightly | STEP...] runs steps, by default all that a change may break, and
# prints a summary. It fails if a step failed or changed the work tree.
cmd_test() {
	local steps=("$@") before step
	case $* in
	"") steps=("${change_steps[@]}") ;;
	quick) steps=(fmt vetted short) ;;
	nightly) steps=("${nightly_steps[@]}") LM_NIGHTLY=1 ;;
	esac
	export LM_NIGHTLY=${LM_NIGHTLY:-}
	for step in ${steps[*]}; do
		declare -F "step_$step" >/dev/null ||
			{ warn "no step $step; ./build.sh help lists them"; exit 64; }
	done
	mkdir -p "$out"
	rm -f "$out"/unit.log "$out"/fuzz.log "$out"/skipped.log "$out"/times.log
	before=$(print_tree_state)
	for step in "${steps[@]}"; do
		if [[ $step == *" "* ]]; then
			# shellcheck disable=SC2086 # names are words
			run_steps_at_once $step
		else
			run_step "$step"
		fi
	done
	check_tree_unchanged "$before"
	print_evidence
	print_slowest_tests
	print_summary
}

# cmd_lint runs the steps fmt, vet and lint, and prints a summary.
cmd_lint() {
	local step
	mkdir -p "$out"
	for step in fmt vet lint; do run_step $step; done
	print_summary
}

# run_step NAME runs a step in a subshell, so that a failure ends only that step, and notes its
# result. Functions that write logs read $step_name.
run_step() {
	local name=$1 status=0 start=$SECONDS used step_name=$1
	used=$(print_processor_seconds)
	say "== $name"
	set +e
	(
		set -e
		"step_$name"
	) 2>&1 | tee "$out/step-$name.log"
	status=${PIPESTATUS[0]}
	set -e
	used=$(($(print_processor_seconds) - used))
	note_result "$name" "$status" "$((SECONDS - start)) s, processors ${used} s"
}

# run_steps_at_once NAME... runs steps at the same time, prints their logs one after another, and
# notes their results.
run_steps_at_once() {
	local name status start=$SECONDS used step_name
	local -A running=()
	used=$(print_processor_seconds)
	say "== $* at once"
	for name in "$@"; do
		(
			set -e
			step_name=$name
			"step_$name"
		) >"$out/step-$name.log" 2>&1 &
		running[$name]=$!
	done
	for name in "$@"; do
		status=0
		wait "${running[$name]}" || status=$?
		say "== $name"
		cat "$out/step-$name.log"
		note_result "$name" "$status" "$((SECONDS - start)) s after the start of all at once"
	done
	used=$(($(print_processor_seconds) - used))
	say "$* at once: $((SECONDS - start)) s, processors $used s"
}

# note_result NAME STATUS DETAILS adds a step to $passed, $failed or $skips.
note_result() {
	local log=$out/step-$1.log
	case $2 in
	0) passed+=("$1 ($3)$(print_skip_count "$1")") ;;
	"$skip_status") skips+=("$1: $(sed -n 's/^skipped: //p' "$log" | tail -1)") ;;
	*) failed+=("$1$(print_reasons "$log")") ;;
	esac
}

# print_processor_seconds prints how long the processors have worked for the children of this shell
# that have ended, in seconds.
print_processor_seconds() {
	awk -v ticks="$(getconf CLK_TCK)" '{
		sub(/^.*\) /, "") # pid and name, which may contain spaces
		printf "%d\n", ($14 + $15) / ticks # cutime, cstime: proc(5)
	}' "/proc/$$/stat"
}

# print_reasons LOG prints why a step failed, for the summary, since the end of the output may be
# all that a reader has: the tests that failed, each with the last line of its text; the packages
# whose test program was ended by a signal or a panic; without both, the last lines of the log. At
# most ten lines of 200 characters.
print_reasons() {
	awk '
		function indent(text) { return "\n           " substr(text, 1, 200) }
		/^=== RUN/ { why = "" }
		/^===/ { name = "" }
		/_test\.go:[0-9]+: / {
			why = $0
			sub(/^.*_test\.go:[0-9]+: */, ": ", why)
			if (name != "") { tests[++n] = name why; name = why = "" }
		}
		# With go test -v, the text is above this line; of a fuzz target, it is below.
		/^ *--- FAIL: / { name = $3 }
		/^(signal|panic|fatal error): / { ended = $0 }
		/^FAIL\t/ && ended != "" { tests[++n] = $2 ": " ended; ended = "" }
		/^ *--- FAIL: / && why != "" { tests[++n] = $3 why; name = why = "" }
		/./ { last[++lines % 3] = $0 }
		END {
			for (i = 1; i <= n && i <= 10; i++) printf "%s", indent(tests[i])
			if (n > 10) printf "%s", indent("and " n - 10 " more")
			for (i = lines - 2; n == 0 && i <= lines; i++)
				if (i > 0) printf "%s", indent(last[i % 3])
		}' "$1"
}

# print_skip_count STEP prints how many cases a step has skipped, nothing if none.
print_skip_count() {
	local count
	count=$(grep -c "^$1: " "$out/skipped.log" 2>/dev/null) || return 0
	printf ', %d cases skipped' "$count"
}

# run_go_tests ARGUMENT... runs go test with flags and packages. It prints the results, on failure
# also the logs of failed tests. The complete log is tests-STEP.log; skipped cases and durations of
# tests are collected for the summary. Step vet has already vetted the tests.
run_go_tests() {
	local log=$out/tests-$step_name.log status
	set +e
	go test -vet=off -timeout "${LM_NIGHTLY:+3}20m" -v "$@" 2>&1 | tee "$log" |
		grep --line-buffered -E '^(ok|FAIL|panic)|^ *--- FAIL'
	status=${PIPESTATUS[0]}
	set -e
	[[ $status -eq 0 ]] || print_failures "$log"
	print_skipped_cases "$log" >>"$out/skipped.log"
	print_test_times "$log" >>"$out/times.log"
	return "$status"
}

# run_counted_go_tests ARGUMENT... is run_go_tests for tests that log evidence: it appends their
# log to unit.log, which print_evidence reads.
run_counted_go_tests() {
	local status=0
	run_go_tests "$@" || status=$?
	cat "$out/tests-$step_name.log" >>"$out/unit.log"
	return "$status"
}

# print_skipped_cases LOG prints the skipped cases of a log, and why they were skipped, except those
# that tools/check/effort leaves to other commands.
print_skipped_cases() {
	awk -v step="$step_name" '/^=== / { why = "" }
		/_test\.go:[0-9]+: / { why = $0; sub(/^.*_test\.go:[0-9]+: /, "", why) }
		/^ *--- SKIP: / && why !~ /^(only in .*nightly|not with -short)$/ {
			print step ": " $3 (why == "" ? "" : ": " why)
			why = ""
		}' "$1"
}

# print_test_times LOG prints seconds, step, package and name of each test of a log.
print_test_times() {
	awk -v step="$step_name" '
		/^--- (PASS|FAIL): / {
			seconds = $4
			gsub(/[()s]/, "", seconds)
			list[++n] = seconds "\t" $3
		}
		/^(ok|FAIL)[ \t]/ {
			for (i = 1; i <= n; i++) {
				split(list[i], t, "\t")
				print t[1] "\t" step "\t" $2 "\t" t[2]
			}
			n = 0
		}' "$1"
}

# print_slowest_tests prints the ten tests that took longest.
print_slowest_tests() {
	[[ -s $out/times.log ]] || return 0
	say "== slowest tests"
	sort -rn "$out/times.log" |
		awk -F '\t' 'NR <= 10 { printf "%8.1f s  %-8s %s %s\n", $1, $2, $3, $4 }'
}

# print_failures LOG prints the text of tests that failed, panicked or did not compile: at most
# the first 60 lines of each, so that readers find the others. Tests run in parallel, so a line
# belongs to the test that the last line `=== RUN`, `=== CONT` or `=== NAME` names.
print_failures() {
	awk '
		/^(panic:|fatal error:|SIG|#)/ { all = 1 }
		all { print }
		/^(ok|FAIL)/ { all = 0 }
		/^=== / { name = $3; next }
		/^ *--- FAIL: / {
			printf "=== RUN   %s\n%s", $3, text[$3]
			if (n[$3] > 60) print "  ... " n[$3] - 60 " lines more"
			print
		}
		/^ *--- (PASS|SKIP|FAIL): / { delete text[$3]; delete n[$3]; next }
		++n[name] <= 60 { text[name] = text[name] substr($0, 1, 1000) "\n" }' "$1"
}

# check_full_coverage fails unless tests reached every statement of $covered_packages.
check_full_coverage() {
	local package
	for package in $(go list "${covered_packages[@]}"); do
		grep -qP "^ok\s+\Q$package\E\s.*coverage: 100.0% of statements" "$out/unit.log" ||
			{
				warn "$package: tests do not reach every statement;" \
					"go test -coverprofile shows which"
				return 1
			}
	done
}

# print_evidence adds up the evidence that tests log, lines `evidence: N what (detail)`, and prints
# it with the packages that are covered completely and the numbers of fuzzed inputs.
print_evidence() {
	touch "$out/unit.log" "$out/fuzz.log"
	say "== evidence"
	sed -n 's/^.*evidence: \([0-9]*\) \([^(]*[^( ]\).*$/\1\t\2/p' "$out/unit.log" 2>/dev/null |
		awk -F '\t' '{ sum[$2] += $1 }
			END { for (what in sum) printf "%12d %s\n", sum[what], what }' | sort -k2
	sed -n 's/^ok\s*\(\S*\)\s.*coverage: \(100.0%.*\)$/\1: \2 covered/p' "$out/unit.log" 2>/dev/null
	sed -n 's/^fuzzed: //p' "$out/fuzz.log" 2>/dev/null
}

# print_tree_state prints the state of the work tree, nothing if there is no git.
print_tree_state() {
	git rev-parse --is-inside-work-tree >/dev/null 2>&1 || return 0
	git rev-parse HEAD
	git status --porcelain --untracked-files=all
	git diff HEAD | sha256sum
}

# check_tree_unchanged STATE adds a step `tree` to the summary, which fails if the state of the
# work tree is not STATE.
check_tree_unchanged() {
	say "== tree"
	if [[ -z $1 ]]; then
		skips+=("tree: not a git checkout, or git is not there")
	elif [[ $1 == "$(print_tree_state)" ]]; then
		passed+=(tree)
	else
		failed+=(tree)
		warn "the run changed the work tree:"
		diff <(echo "$1") <(print_tree_state) >&2 || true
	fi
}

# print_summary prints the steps that passed, were skipped and failed. If one failed, it ends with
# status 1.
print_summary() {
	local line
	say "== summary"
	for line in "${passed[@]}"; do say "passed   $line"; done
	for line in "${skips[@]}"; do say "skipped  $line"; done
	if [[ -s $out/skipped.log ]]; then
		say "skipped  $(wc -l <"$out/skipped.log") cases, inside of steps:"
		sed 's/^/           /' "$out/skipped.log"
	fi
	for line in "${failed[@]}"; do say "FAILED   $line"; done
	say "in all   $SECONDS s"
	[[ ${#failed[@]} -eq 0 ]] || exit 1
	say DONE
}
