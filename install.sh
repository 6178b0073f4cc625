#!/usr/bin/env bash
# Installs coord, or brings an installation up to date: programs, hooks, coordinator.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: ./install.sh [OPTIONS]

  --prefix DIR                      where programs go (default: ~/.local)
  --scope user|project|local        which Claude Code settings name the hooks (default: user);
                                    project and local mean the current directory
  --recovery act|signature|observe  write this recovery mode into config.toml
  --statusline                      register in the status line too; your own command still runs
  --no-register                     leave Claude Code's settings alone
  --no-start                        do not start the coordinator
  --uninstall                       remove the hooks from the settings; run once more, remove
                                    the programs
  --help                            print this

COORD_HOME=DIR keeps configuration, state and socket below DIR.
Running it again upgrades. Programs lying beside it (bin/, lib/coord/) are taken as they are;
otherwise they are built here.
TEXT
}

say() {
    printf '%s\n' "$*"
}

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

wrong_usage() {
    printf 'install.sh: %s\n\n' "$*" >&2
    usage >&2
    exit 2
}

source_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
prefix=
scope=user
recovery=
statusline=
register=yes
start=yes
uninstall=no
# Files not yet renamed to their place.
unfinished=()
made=()

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix | --scope | --recovery)
                [ -n "${2:-}" ] || wrong_usage "$1 needs a value"
                declare -g "${1#--}=$2"
                shift
                ;;
            --statusline) statusline=--statusline ;;
            --no-register) register=no ;;
            --no-start) start=no ;;
            --uninstall) uninstall=yes ;;
            --help | -h)
                usage
                exit 0
                ;;
            *) wrong_usage "unknown option: $1" ;;
        esac
        shift
    done
    case $scope in user | project | local) ;; *) wrong_usage "--scope $scope: user, project or local" ;; esac
    case $recovery in '' | act | signature | observe) ;; *) wrong_usage "--recovery $recovery: act, signature or observe" ;; esac
    if [ -z "$prefix" ]; then
        [ -n "${HOME:-}" ] || fail "HOME is not set; name a directory with --prefix"
        prefix=$HOME/.local
    fi
    case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
    prefix=${prefix%/}
}

# Names where the programs are: programs_from, hooks_from and notice_from.
take_prebuilt() {
    [ -x "$source_dir/bin/coord" ] && [ -x "$source_dir/lib/coord/coord-hook-event" ] || return 1
    programs_from=$source_dir/bin
    hooks_from=$source_dir/lib/coord
    notice_from=$source_dir/lib/coord
    say "programs: the ones beside this script"
}

check_tools() {
    [ "$(uname -s)" = Linux ] || fail "coord runs on Linux only"
    if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    fi
    command -v cargo >/dev/null || fail "cargo is missing: install Rust with rustup and run again"
    command -v cc >/dev/null || fail "a C compiler is missing: install gcc and libc6-dev (or your system's like) and run again"
}

has_target() {
    compgen -G "$(rustc --print sysroot)/lib/rustlib/$1/lib/libstd-*.rlib" >/dev/null
}

build() {
    local machine target target_dir
    check_tools
    machine=$(uname -m)
    target=$machine-unknown-linux-musl
    target_dir=${CARGO_TARGET_DIR:-$source_dir/target}
    case $target_dir in /*) ;; *) target_dir=$PWD/$target_dir ;; esac
    # The toolchain of the sources counts, and flags of the caller would displace theirs.
    cd -- "$source_dir"
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS
    if ! has_target "$target" && command -v rustup >/dev/null; then
        say "adding the Rust target $target"
        rustup target add "$target" || say "cannot add the Rust target $target"
    fi
    if ! has_target "$target"; then
        target=$machine-unknown-linux-gnu
        export RUSTFLAGS='-C target-feature=+crt-static'
    fi
    say "building static programs for $target (some minutes the first time)"
    cargo build --locked --profile hook --target "$target" --target-dir "$target_dir" -p coord-hook
    cargo build --locked --release --target "$target" --target-dir "$target_dir" -p coord-cli -p coord-notice \
        --bin coord --bin coord-notice-send
    programs_from=$target_dir/$target/release
    notice_from=$programs_from
    hooks_from=$target_dir/$target/hook
    cd -- "$OLDPWD"
    say "built for $target"
}

# Directories that were not there before leave with the last program; `lib/coord/made` names them.
make_directory() {
    [ ! -d "$1" ] || return 0
    make_directory "$(dirname -- "$1")"
    mkdir -- "$1"
    made+=("$1")
}

remove_unfinished() {
    [ ${#unfinished[@]} -eq 0 ] || rm -f -- "${unfinished[@]}"
}

# Running sessions call these paths at any moment: each is replaced by rename, never missing.
put() {
    local from=$1 directory=$2 name
    name=$(basename -- "$from")
    local new=$directory/.$name.new.$$
    unfinished+=("$new")
    cp -- "$from" "$new"
    chmod 755 -- "$new"
    mv -fT -- "$new" "$directory/$name"
}

# One program by a second name, which decides what it does.
put_link() {
    local from=$1 name=$2 directory=$3
    local new=$directory/.$name.new.$$
    unfinished+=("$new")
    # Where the file system knows no links, a copy does.
    ln -- "$directory/$from" "$new" 2>/dev/null || cp -- "$directory/$from" "$new"
    mv -fT -- "$new" "$directory/$name"
}

install_programs() {
    local hook n_hooks=0
    trap remove_unfinished EXIT
    [ -x "$notice_from/coord-notice-send" ] || fail "no coord-notice-send in $notice_from"
    make_directory "$prefix/bin"
    make_directory "$prefix/lib/coord"
    [ ${#made[@]} -eq 0 ] || printf '%s\n' "${made[@]}" >>"$prefix/lib/coord/made"
    for hook in "$hooks_from"/coord-hook-*; do
        case $hook in *.d) continue ;; esac
        [ -x "$hook" ] || continue
        put "$hook" "$prefix/lib/coord"
        n_hooks=$((n_hooks + 1))
    done
    [ "$n_hooks" -gt 0 ] || fail "no hook executable in $hooks_from"
    put "$notice_from/coord-notice-send" "$prefix/lib/coord"
    put "$programs_from/coord" "$prefix/bin"
    put_link coord coordctl "$prefix/bin"
    say "installed $prefix/bin/coord, $prefix/bin/coordctl, and $n_hooks hooks and coord-notice-send in $prefix/lib/coord"
}

# Into config.toml; what else stands there is not touched. Without the option nothing is.
set_recovery() {
    [ -n "$recovery" ] || return 0
    local said
    said=$("$prefix/bin/coordctl" recovery-mode "$recovery")
    say "$said"
    # A coordinator reads its configuration when it starts.
    case $said in "already set:"*) return 0 ;; esac
    [ "$start" = yes ] || return 0
    ! "$prefix/bin/coord" status >/dev/null 2>&1 || "$prefix/bin/coord" down
}

start_coordinator() {
    "$prefix/bin/coord" up
    if "$prefix/bin/coord" help doctor >/dev/null 2>&1; then
        "$prefix/bin/coord" doctor
    else
        "$prefix/bin/coord" status
    fi
}

tell_path() {
    case :$PATH: in
        *:"$prefix/bin":*) ;;
        *) say "add to your shell's profile: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

run_install() {
    say "coord goes to $prefix/bin and $prefix/lib/coord"
    [ "$register" = no ] || say "hooks go into Claude Code's settings, scope $scope"
    [ "$start" = no ] || say "the coordinator is started"
    take_prebuilt || build
    install_programs
    set_recovery
    [ "$register" = no ] || "$prefix/bin/coord" install --scope "$scope" ${statusline:+"$statusline"}
    tell_path
    [ "$start" = no ] || start_coordinator
}

# Whether the hooks are called by way of `coord plugin` too.
plugin_is_enabled() {
    local settings=${CLAUDE_CONFIG_DIR:-${HOME:-}/.claude}/settings.json
    grep -qsE '"coord@coord"[[:space:]]*:[[:space:]]*true' -- "$settings"
}

remove_programs() {
    local i directory directories=()
    rm -f -- "$prefix"/lib/coord/coord-hook-* "$prefix/lib/coord/coord-notice-send"
    if [ -e "$prefix/lib/coord/made" ]; then
        mapfile -t directories <"$prefix/lib/coord/made"
        rm -f -- "$prefix/lib/coord/made"
    fi
    rmdir -- "$prefix/lib/coord" 2>/dev/null || say "$prefix/lib/coord holds other files and stays"
    rm -f -- "$prefix/bin/coord" "$prefix/bin/coordctl"
    # Those above were made first; what holds anything else stays.
    for ((i = ${#directories[@]} - 1; i >= 0; i--)); do
        directory=${directories[i]}
        [ ! -d "$directory" ] || rmdir -- "$directory" 2>/dev/null || :
    done
}

# Where coord keeps its state; `coord`, which knows, is gone when this is told.
state_directory() {
    if [ -n "${COORD_HOME:-}" ]; then
        printf '%s\n' "$COORD_HOME/state"
    else
        printf '%s\n' "${XDG_STATE_HOME:-${HOME:-}/.local/state}/coord"
    fi
}

run_uninstall() {
    local coord=$prefix/bin/coord planned
    [ -x "$coord" ] || fail "$coord is not there: nothing to uninstall under this prefix"
    planned=$("$coord" uninstall --scope "$scope" --dry-run --json)
    "$coord" uninstall --scope "$scope"
    case $planned in
        *'"changed":true'*)
            # Sessions that run may call the hooks until they have read their settings again.
            say "the programs stay for the sessions that still call them: remove the hooks from"
            say "projects too (--scope project|local), then run this again in 10 minutes"
            return 0
            ;;
    esac
    if plugin_is_enabled; then
        say "the programs stay for the plugin that names them: claude plugin uninstall coord@coord,"
        say "then run this again in 10 minutes"
        return 0
    fi
    [ -n "${COORD_HOME:-}" ] || "$coord" service remove || say "the service could not be removed"
    "$coord" down || say "the coordinator could not be stopped, or none runs"
    remove_programs
    say "removed the programs; recorded state stays in $(state_directory): delete that directory to remove it"
}

parse_arguments "$@"
if [ "$uninstall" = yes ]; then
    run_uninstall
else
    run_install
fi
