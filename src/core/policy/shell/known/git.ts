/** Long options of git that decide nothing but how its own work is done and shown. */
export const gitOptions: ReadonlySet<string> = new Set(
  `help version C git-dir work-tree no-pager paginate no-optional-locks literal-pathspecs bare namespace config-env exec-path
  all amend abort abbrev abbrev-commit add after algorithm allow-empty allow-empty-message ancestry-path anchored append
  author author-date-order autosquash autostash auto base batch batch-check before binary blob branch branches break-rewrites
  cached cc cherry cherry-mark cherry-pick check children chmod color color-words columns column combined-all-paths
  committer compact-summary compression contains context continue copies cover-letter create create-reflog count count-lines
  cumulative date date-order decorate deepen delete deleted depth detach dense diff diff-algorithm diff-filter diff-merges
  dirstat discard-changes disambiguate dry-run edit edit-description empty encoding exact-match exclude exclude-standard
  exclude-per-directory exit-code extended-regexp ext-grep fast-forward ff ff-only file-size files-with-matches
  files-without-match filter find-copies find-copies-harder find-object find-renames first-parent fixed fixed-strings fixup
  follow force force-with-lease force-if-includes format fork-point full full-diff full-history full-index full-name
  function-context function gc get get-all get-regexp get-urlmatch global gpg-sign graph grep grep-reflog guess hard hash
  heads histogram hunk init recursive ignore-all-space ignore-blank-lines ignore-case ignore-cr-at-eol ignore-errors ignore-missing
  ignore-other-worktrees ignore-space-at-eol ignore-space-change ignore-submodules ignored include-untracked indent-heuristic
  index initial-branch inter-hunk-context interactive intent-to-add invert-grep ita-invisible-in-index jobs keep keep-base
  keep-index left-only left-right limit line-prefix line-number list list-cmds local log log-size long match max-count
  max-depth max-parents merge merge-base merged merges message min-parents minimal mirror mixed modified move
  name-only name-rev name-status new no-index not notes null numstat object-only oneline onto only ours
  only-matching orphan others output-indicator-new overwrite-ignore parents parseopt patch patch-with-raw patch-with-stat
  path-format patience perl-regexp pickaxe-all pickaxe-regex points-at porcelain preserve-merges pretty progress
  prune prune-tags quiet quit raw rebase rebase-merges recount recurse-submodules reedit-message refresh reflog refs relative
  relative-date remotes remote-name rename-empty rename-section renames reset-author reschedule-failed-exec reverse
  reuse-message right-only root reset rotate-to set-upstream set-upstream-to short shortstat show-all show-current
  show-forced-updates show-function show-notes show-object-format show-prefix show-cdup show-toplevel show-superproject-working-tree
  show-origin show-pulls show-scope show-signature show-stash signoff simplify-by-decoration simplify-merges since single-branch skip
  skip-to skip-worktree soft sort source space-change sparse squash staged stage stat stat-count stat-name-width stat-width
  stage-fixes stash stdin stop-at-non-option strategy strategy-option submodule submodules summary system tag tags text theirs
  thin tips topo-order track tracked unified unmerged unset unset-all unshallow unset-upstream until untracked untracked-files update
  update-head-ok update-refs use-mailmap mailmap verbose verify verify-signatures walk-reflogs whitespace word-diff
  word-diff-regex word-regexp working-tree-encoding worktree write z zero-commit ignore-skip-worktree-bits pathspec-file-nul
  and or invert-match count-objects is-inside-work-tree is-bare-repository is-inside-git-dir absolute-git-dir
  git-common-dir git-path symbolic symbolic-full-name abbrev-ref default sq-quote revs-only no-revs flags no-flags
  dirty candidates always long tags exclude include-tag no-merged no-contains type int bool path expiry-date
  cone check-attr cruft aggressive sign no-edit no-verify autocorrect find-links hooks trailers only-trailers parse
  error-unmatch eol debug deduplicate directory killed recent-objects refmap negotiate-only set-default value remove-section
  replace-all fixed-value name-width exclude-existing shallow-since shallow-exclude shallow-submodules single
  remote-submodules also-filter-submodules bundle-uri server-option ref-format template-none`
    .split(/\s+/)
    .filter((word) => word !== ''),
)
