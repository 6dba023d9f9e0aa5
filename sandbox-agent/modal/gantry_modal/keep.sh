# The first process of a sandbox, as root. Modal's own time limit is fixed when a sandbox is created, so the sandbox
# ends itself: when the time in the file is over, which `extend` writes anew; a minute after its agent, so that its last
# words can be asked for; or if none is launched. OpenCode's user can reach neither this process nor its file.
umask 077
state=/var/lib/gantry
mkdir -p "$state"
begun() {
  local all
  read -r all < "/proc/$1/stat" || return
  set -- ${all##*) }
  [ "$1" = Z ] || echo "${20}"
}
now=$(date +%s)
echo $((now + $1)) > "$state/deadline"
launch_by=$((now + 180))
# Files come before the agent, and may be many.
restore_by=$((now + 600))
gone_at=
while sleep 1; do
  now=$(date +%s)
  read -r deadline < "$state/deadline" || continue
  [ "$now" -lt "$deadline" ] || exit 10
  if [ -n "$gone_at" ]; then
    [ "$now" -lt $((gone_at + 60)) ] || exit 11
  elif read -r pid start 2> /dev/null < "$state/launch/process" && [ -n "$start" ]; then
    [ "$(begun "$pid" 2> /dev/null)" = "$start" ] || gone_at=$now
  else
    [ ! -e "$state/restoring" ] || launch_by=$restore_by
    [ "$now" -lt "$launch_by" ] || exit 12
  fi
done
