"""`surefoot completion`: what makes a shell complete commands, options, tasks and runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from surefoot.cli.parser import Positional

COMPLETE = "--complete"
"""How a shell asks for what the last of the words behind it may become."""

BASH = """\
_surefoot() {
    local IFS=$'\\n' word="${COMP_WORDS[COMP_CWORD]//\\\\/}" line="${COMP_LINE:0:COMP_POINT}" k
    local -a words=()
    # Bash also splits at = and :, which are parts of our words; so the line is split here, at blanks.
    IFS=$' \\t\\n' read -a words <<< "$line"
    [[ "$line" == *[[:blank:]] && "$line" != *\\\\[[:blank:]] ]] && words+=("")
    local whole="${words[-1]}"
    COMPREPLY=($("${words[0]/#\\~/$HOME}" --complete "${words[@]:1}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"${whole%"$word"}"}")
    for k in "${!COMPREPLY[@]}"; do printf -v "COMPREPLY[k]" %q "${COMPREPLY[k]}"; done
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == */ ]] && compopt -o nospace
}
complete -o default -F _surefoot surefoot
"""
ZSH = """\
#compdef surefoot
_surefoot() {
    local -a found
    found=(${(f)"$(${~words[1]} --complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)"})
    (( $#found )) || { _files; return }
    compadd -S '' -- ${(M)found:#*/}  # more is to come behind a folder
    compadd -- ${found:#*/}
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _surefoot surefoot
"""
FISH = """\
function __surefoot
    set -l words (commandline -opc) (commandline -ct | string unescape)
    set -l found ($words[1] --complete $words[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c surefoot -f -a '(__surefoot)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@dataclass(frozen=True)
class CompletionCommand:
    """Print what makes a shell complete commands, options, tasks and runs with the tab key.

    Put the example's line into ~/.bashrc or ~/.zshrc; for fish, `surefoot completion fish | source` into
    ~/.config/fish/config.fish.

    Example: eval "$(surefoot completion bash)"
    """

    shell: Positional[Literal["bash", "zsh", "fish"]]
    """The shell."""

    def run(self, console: Console) -> int:
        print(SCRIPTS[self.shell], end="")
        return 0
