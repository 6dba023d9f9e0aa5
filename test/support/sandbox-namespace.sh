#!/bin/sh
# A machine of a vendor's double: the literal places of a remote sandbox on this computer, as root.
#
#   start FOLDER [SOURCE:TARGET | PORT]... -- COMMAND...   runs until COMMAND ends, and everything in it with it
#   inside PID COMMAND...                                  in the machine whose `start` has this pid
#
# The root is an overlay over this computer's: what the machine writes is in FOLDER/upper, its /tmp is FOLDER/tmp. It has
# its own processes, which end with COMMAND or with whoever started it, and its own network, so that several can have
# one port. PORTs lead to this computer's loopback, through FOLDER/ports.
set -eu
here=$(dirname "$0")
action=$1
shift

case $action in
start)
  exec setpriv --pdeathsig KILL unshare --mount --pid --net --fork --kill-child \
    sh "$0" machine "$@"
  ;;
machine)
  folder=$1
  root=$folder/root
  shift
  mkdir -p "$folder/upper" "$folder/work" "$folder/tmp" "$root"
  chmod 1777 "$folder/tmp"
  touch "$folder/upper/.machine"
  mount -t overlay overlay \
    -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  [ ! -d "$root/dev/shm" ] || mount -t tmpfs tmpfs "$root/dev/shm"
  mount --rbind /sys "$root/sys"
  mount --bind "$folder/tmp" "$root/tmp"
  ip link set lo up
  ports=
  while [ "$1" != -- ]; do
    case $1 in
    *:*)
      source=${1%%:*}
      target=$root${1#*:}
      mkdir -p "$(dirname "$target")"
      if [ -d "$source" ]; then mkdir -p "$target"; else touch "$target"; fi
      mount --bind "$source" "$target"
      ;;
    *) ports="$ports $1" ;;
    esac
    shift
  done
  shift
  rm -f "$folder/up"
  if [ -n "$ports" ]; then
    # shellcheck disable=SC2086 # one word per port
    "$GANTRY_NODE" "$here/port-relay.ts" "$folder/ports" $ports &
    until [ -e "$folder/up" ]; do
      kill -0 $! || exit 1
      sleep 0.02
    done
  fi
  unset GANTRY_NODE
  cd /
  exec chroot "$root" "$@"
  ;;
inside)
  pid=$1
  shift
  init=$(cat "/proc/$pid/task/$pid/children")
  # Without the mark it would run in this computer's own root.
  # shellcheck disable=SC2016 # expanded inside
  exec nsenter --target "${init% }" --mount --pid --net --root \
    env -C / sh -c 'if [ -e /.machine ]; then exec "$@"; else exit 97; fi' sh "$@"
  ;;
*)
  echo "Unknown action \"$action\"" >&2
  exit 64
  ;;
esac
