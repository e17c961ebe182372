# wheel_in_chroot.sh ROOT WHEEL TESTS: what scripts/release tries of the wheel in a chroot, as a user with an environment of hers.
# In namespaces of its own for mounts, processes and networks; without an index of packages.
root=$1
ip link set lo up
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root/home"
mount -t tmpfs tmpfs "$root/home"
cp "$2" "$3" "$root/tmp/"
cat >"$root/tmp/try" <<'INSIDE'
set -eu
cd
python3 -m venv --system-site-packages environment
environment/bin/pip install --quiet --no-index /tmp/*.whl
environment/bin/urnic --version
mkdir tests
cp /tmp/test_wheel.py tests
echo "== pytest alone: the fixture has a daemon of its own, and the programs of the test use it"
environment/bin/python -m pytest -q -p no:cacheprovider -k "not pyverbs" tests
echo "== pytest under urnic run: verbs in the process of the test, too"
environment/bin/urnic run --standalone -- environment/bin/python -m pytest -q -p no:cacheprovider tests
environment/bin/pip uninstall --quiet --yes urnic
# But for what pytest compiled and folders without files.
left=$(find environment -path '*urnic*' -type f ! -name '*.pyc')
[ -z "$left" ] || { echo "these are left: $left"; exit 1; }
INSIDE
chroot "$root" sh -c 'id alice >/dev/null 2>&1 || useradd alice; mkdir -p /home/alice; chown alice /home/alice'
exec chroot "$root" runuser -u alice -- env -i HOME=/home/alice PATH=/usr/bin:/bin:/usr/sbin LANG=C.UTF-8 sh /tmp/try
