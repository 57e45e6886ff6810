# shellcheck shell=bash
# Part of build.sh: checks of the freestanding player in C (runtime/c).

# The flags of every compilation. A port compiles the player with its own.
player_flags=(-std=c99 -ffreestanding -fno-pic -I runtime/c)
player_flags+=(-fno-asynchronous-unwind-tables -fno-unwind-tables)
player_warnings=(
	-Wall -Wextra -Wconversion -Wshadow -pedantic -Wundef -Wcast-align -Wstrict-prototypes
	-Wmissing-prototypes -Werror
)

# The largest stack frame of one function of the player, in bytes.
player_stack_max=432

# The options of a player without texts, of one that only replays what others have verified, and of
# one that also has no board with tiles.
player_untexted="-DLMPLAY_TEXT=0"
player_replay="-DLMPLAY_VERIFY=0 -DLMPLAY_TEXT=0"
player_untiled="$player_replay -DLMPLAY_BOARD_WORMHOLE=0 -DLMPLAY_BOARD_BLACKHOLE=0"

# The compilers of firmware, with flags, and the largest code and constants in bytes with -Os: of
# the complete player, with $player_untexted, $player_replay and $player_untiled.
player_targets=(
	"arm64|aarch64-linux-gnu-gcc|gcc-aarch64-linux-gnu||30912|22528|12768|9632"
	"cortex-r5|arm-none-eabi-gcc|gcc-arm-none-eabi|-mcpu=cortex-r5|35936|27584|15424|11424"
	"cortex-m7|arm-none-eabi-gcc|gcc-arm-none-eabi|-mcpu=cortex-m7 -mthumb|27104|19264|10432|7584"
	"riscv64|riscv64-unknown-elf-gcc|gcc-riscv64-unknown-elf|-mcmodel=medany|27808|19072|10656|8000"
)

# The processors of clang that have a default of LMPLAY_BARRIER, with flags.
player_barriers=(
	aarch64-none-elf armv7a-none-eabi armv6-none-eabi armv6m-none-eabi riscv64-none-elf
	x86_64-linux-gnu i386-linux-gnu "i386-linux-gnu -msse2"
)

# The rows of the table in runtime/c/README.md of what a port supplies: a name, and a compiler with
# flags.
player_needs=(
	"arm64|aarch64-linux-gnu-gcc"
	"cortex-r5|arm-none-eabi-gcc -mcpu=cortex-r5"
	"cortex-m3, cortex-m7|arm-none-eabi-gcc -mthumb -mcpu=cortex-m3"
	"cortex-m7, clang|clang --target=armv7em-none-eabi -mcpu=cortex-m7"
	"cortex-m0|arm-none-eabi-gcc -mthumb -mcpu=cortex-m0"
	"riscv64|riscv64-unknown-elf-gcc -mcmodel=medany"
	"riscv32|riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32"
)

# The calls of a firmware that links the player without what it does not call, and the largest code
# and constants in bytes for arm64: with $player_untexted, $player_replay and $player_untiled.
player_calls="open plan load input output run unload"
player_linked_max=(21600 11872 8736)

# Rules of MISRA C:2012 from which the player deviates; runtime/c/README.md has the reasons.
player_deviations="2.3 2.4 2.5 8.7 8.9 10.4 11.4 11.5 11.6 15.5 20.1 20.7 20.9 21.14 21.15 21.16"

# step_player compiles the player without warnings, analyses it, and prints and checks its stack,
# its size and the coverage of its tests.
step_player() {
	ensure_c_compiler || skip_step "$missing is not here"
	ensure_installed clang clang || skip_step "$missing is not here"
	ensure_installed cppcheck cppcheck || skip_step "$missing is not here"
	local entry compiler package
	for entry in "${player_targets[@]}"; do
		IFS='|' read -r _ compiler package _ <<<"$entry"
		ensure_installed "$compiler" "$package" || skip_step "$missing is not here"
	done
	mkdir -p "$out/_player"
	# Each works with one thread, and on files of its own.
	local check failures=()
	local -A running=()
	for check in compilers misra sizes needs coverage; do
		"check_player_$check" >"$out/_player/$check.out" 2>&1 &
		running[$check]=$!
	done
	for check in "${!running[@]}"; do
		if wait "${running[$check]}"; then
			cat "$out/_player/$check.out"
		else
			failures+=("$out/_player/$check.out")
		fi
	done
	# The summary has the last lines of a step that failed.
	[[ ${#failures[@]} -eq 0 ]] || { cat "${failures[@]}"; return 1; }
}

# check_player_compilers compiles the player with all warnings in every configuration, and runs the
# analysers of gcc and clang.
check_player_compilers() {
	local compiler options object=$out/_player/lmplay.o
	for compiler in gcc clang; do
		for options in "" -DLMPLAY_VERIFY=0 -DLMPLAY_TEXT=0 -DLMPLAY_ACCESS_64=0 \
			"$player_untiled"; do
			# shellcheck disable=SC2086 # options are words
			$compiler "${player_flags[@]}" "${player_warnings[@]}" -O2 $options \
				-c runtime/c/lmplay.c -o "$object"
		done
	done
	for options in "${player_barriers[@]}"; do
		# shellcheck disable=SC2086 # options are words
		clang "${player_flags[@]}" "${player_warnings[@]}" -Os --target=$options \
			-c runtime/c/lmplay.c -o "$object"
	done
	gcc "${player_flags[@]}" -Werror -O2 -fanalyzer -c runtime/c/lmplay.c -o "$object"
	clang --analyze -Xclang -analyzer-werror "${player_flags[@]}" runtime/c/lmplay.c -o "$object"
	say "player: gcc and clang print no warning, and their analysers find nothing"
}

# check_player_misra runs cppcheck with the MISRA addon. It fails if the player breaks a rule that
# is not in $player_deviations.
check_player_misra() {
	local log=$out/_player/misra.log broken
	cppcheck --addon=misra --std=c99 --enable=warning,style --platform=unix64 -q \
		--template='{file}:{line} {id}' -D__GNUC__=12 -D__aarch64__ -UUINTPTR_MAX -ULMPLAY_CONFIG \
		-I runtime/c runtime/c/lmplay.c 2>"$log"
	# A line about no rule is a finding of cppcheck itself.
	broken=$(sed -n 's/.* misra-c2012-//p' "$log" | sort -uV)
	if grep -v ' misra-c2012-' "$log"; then
		warn "cppcheck has findings"
		return 1
	fi
	broken=$(comm -23 <(sort <<<"$broken") <(tr ' ' '\n' <<<"$player_deviations" | sort))
	[[ -z $broken ]] || {
		# shellcheck disable=SC2086 # one word for each rule
		grep -F -w -f <(printf 'misra-c2012-%s\n' $broken) "$log"
		warn "rules of MISRA C:2012 without a deviation:" "$broken"
		return 1
	}
	say "player: MISRA C:2012 with $(wc -w <<<"$player_deviations") rules deviated from"
}

# check_player_sizes prints code, constants and stack of the player for each target, and fails if a
# size exceeds its limit or there is writable data.
check_player_sizes() {
	local entry name compiler flags whole untexted replay untiled
	for entry in "${player_targets[@]}"; do
		IFS='|' read -r name compiler _ flags whole untexted replay untiled <<<"$entry"
		print_player_size "$name" "$compiler" "$flags" "$whole" ""
		print_player_size "$name, no texts" "$compiler" "$flags" "$untexted" "$player_untexted"
		print_player_size "$name, replay alone" "$compiler" "$flags" "$replay" "$player_replay"
		print_player_size "$name, replay alone without tiles" "$compiler" "$flags" "$untiled" \
			"$player_untiled"
	done
	print_linked_size "verification and replay, no texts" "${player_linked_max[0]}" \
		"$player_untexted" verify
	print_linked_size "replay alone" "${player_linked_max[1]}" "$player_replay"
	print_linked_size "replay alone without tiles" "${player_linked_max[2]}" "$player_untiled"
}

# check_player_needs compiles the player for each processor as gcc and as a compiler that is none,
# without a C library, and compares what the object files need with the table in the README.
check_player_needs() {
	local entry name compiler row wrong=
	# Only gcc's header <stdint.h> is found.
	arm-none-eabi-gcc "${player_flags[@]}" "${player_warnings[@]}" -Os -mthumb -mcpu=cortex-m3 \
		-nostdinc -isystem "$(arm-none-eabi-gcc -print-file-name=include)" -U__GNUC__ \
		'-DLMPLAY_BARRIER()=(void)0' -c runtime/c/lmplay.c -o "$out/_player/needs.o"
	for entry in "${player_needs[@]}"; do
		IFS='|' read -r name compiler <<<"$entry"
		row=$(print_player_needs "$name" "$compiler")
		grep -qxF "$row" runtime/c/README.md && continue
		warn "not in runtime/c/README.md: $row"
		wrong=1
	done
	[[ -z $wrong ]]
	say "player: the README has what a port supplies, for ${#player_needs[@]} processors"
}

# print_player_needs NAME COMPILER prints a row of the table: what the player needs with -O0,
# -O2 and -Os, of the C library and of the compiler's library.
print_player_needs() {
	local level object=$out/_player/needs.o
	for level in -O0 -O2 -Os; do
		# shellcheck disable=SC2086 # the compiler's flags are words
		$2 "${player_flags[@]}" $level -c runtime/c/lmplay.c -o "$object"
		nm -u "$object"
	done | awk '{ print $2 }' | sort -u | awk -v name="$1" '
		{ column = /mem/ ? 1 : 2; cells[column] = cells[column] " `" $1 "`" }
		END { printf "| %s |%s |%s |\n", name, cells[1], cells[2] == "" ? " -" : cells[2] }'
}

# print_linked_size NAME LIMIT OPTIONS [CALL] prints and checks the size of what an arm64 firmware
# links that makes the calls in $player_calls, and CALL.
print_linked_size() {
	local object=$out/_player/linked.o program=$out/_player/linked.elf call code data
	local linker=(aarch64-linux-gnu-ld --gc-sections -e lmplay_run)
	for call in $player_calls ${4:-}; do linker+=(-u "lmplay_$call"); done
	for call in memcpy memset memcmp; do linker+=("--defsym=$call=0"); done
	# shellcheck disable=SC2086 # options are words
	aarch64-linux-gnu-gcc "${player_flags[@]}" -Os -ffunction-sections -fdata-sections $3 \
		-c runtime/c/lmplay.c -o "$object"
	"${linker[@]}" "$object" -o "$program"
	read -r code data < <(print_sections "$program" aarch64-linux-gnu-size)
	say "player: arm64, linked, $1: $code bytes of code and constants (limit $2)"
	[[ $data -eq 0 ]] || { warn "the player has writable data"; return 1; }
	[[ $code -le $2 ]] || { warn "the player is $((code - $2)) bytes too large"; return 1; }
}

# print_player_size NAME COMPILER FLAGS LIMIT OPTIONS compiles the player for a target, prints its
# size and its largest stack frame in bytes, and checks both, and that there is no writable data.
print_player_size() {
	local object=$out/_player/size.o code data stack
	# shellcheck disable=SC2086 # flags and options are words
	$2 "${player_flags[@]}" -Os -fstack-usage $3 $5 -c runtime/c/lmplay.c -o "$object"
	read -r code data < <(print_sections "$object" "${2%gcc}size")
	stack=$(sort -t$'\t' -k2 -n "${object%.o}.su" | tail -1 | cut -f2)
	say "player: $1: $code bytes of code and constants (limit $4), largest stack frame $stack"
	[[ $data -eq 0 ]] || { warn "the player has writable data"; return 1; }
	[[ $code -le $4 ]] || { warn "the player is $((code - $4)) bytes too large"; return 1; }
	[[ $stack -le $player_stack_max ]] || { warn "a stack frame is too large"; return 1; }
}

# print_sections OBJECT SIZE prints the bytes of code and constants, and of writable data. SIZE is
# the program size of the target's binutils.
print_sections() {
	"$2" "$1" | awk 'NR == 2 { print $1, $2 + $3 }'
}

# The least coverage of the player by vectors and calls, in percent of statements and of branches.
player_statements_min=99 player_branches_min=96

# check_player_coverage runs the vectors, the images of testdata and calls of every function with
# one player that counts, and checks what they reach.
check_player_coverage() {
	local dir=$PWD/$out/_player/coverage statements branches
	rm -rf "$dir" && mkdir -p "$dir"
	gcc -std=c11 -O0 --coverage -Werror -I runtime/c -c "$PWD/runtime/c/lmplay.c" -o "$dir/lmplay.o"
	link_player "$dir" calls testdata/vectors/c/calls.c
	link_player "$dir" fuzz testdata/vectors/c/{fuzz,port}.c
	link_player "$dir" vectors testdata/vectors/c/{check,port,vector}.c
	link_player "$dir" runs -I testdata/firmware/cyclic testdata/vectors/c/runs.c \
		testdata/firmware/cyclic/replay_task.c
	run_player_images "$dir"
	(cd "$dir" && gcov -b lmplay.gcda >report.txt 2>/dev/null)
	read -r statements branches < <(print_player_coverage "$dir/report.txt")
	say "player: vectors and calls reach $statements % of statements, $branches % of branches"
	say "player: $out/_player/coverage/lmplay.c.gcov has the lines"
	[[ ${statements%.*} -ge $player_statements_min ]] || {
		warn "at least $player_statements_min % of the statements must be reached"
		return 1
	}
	[[ ${branches%.*} -ge $player_branches_min ]] || {
		warn "at least $player_branches_min % of the branches must be reached"
		return 1
	}
}

# link_player DIRECTORY NAME SOURCE... links a program with the player that counts.
link_player() {
	gcc -std=c11 -D_GNU_SOURCE -O1 --coverage -I runtime/c -o "$1/$2" "${@:3}" "$1/lmplay.o"
}

# run_player_images DIRECTORY runs the programs. Only `calls` and the vectors have expectations;
# tools/check/vectors compares the reports of `fuzz` with those of the Go runtime.
run_player_images() {
	local dir=$1 image seed budget
	"$dir/calls" testdata/images/{edu-factorial,wh.twoop,edu-dma}.lmb \
		testdata/vectors/{wormhole-host,fixed,commands}.lmb
	for budget in 0 1 7; do
		STEPS=$budget "$dir/vectors" testdata/vectors testdata/vectors/*.vec
	done
	for image in testdata/vectors/{commands,wormhole}.lmb; do "$dir/runs" changed "$image"; done
	for image in testdata/images/*.lmb; do
		for seed in {0..15}; do
			print_case "$image" "$seed"
		done
	done | "$dir/fuzz" >"$dir/reports"
}

# print_case IMAGE SEED prints a case of fuzz.c: size, number of accesses, seed and image.
print_case() {
	local size
	size=$(stat -c %s "$1")
	printf '%b' "$(printf '\\x%02x' $((size & 255)) $((size >> 8 & 255)) $((size >> 16)) 0 \
		0 16 0 0 "$2" 0 0 0 0 0 0 0)"
	cat "$1"
}

# print_player_coverage REPORT prints the percentages of statements, and of branches taken.
print_player_coverage() {
	sed -n "/^File.*lmplay.c'/,/^$/p" "$1" | awk -F '[:%]' '
		/^Lines executed/ { statements = $2 }
		/^Taken at least once/ { branches = $2 }
		END { print statements, branches }'
}
