# older.sh FOLDER OLDER: makes packages in OLDER that are those of FOLDER as an older release would have been: another version, other
# files for configuration, and one file more. Nothing is built.
mkdir -p "$2"
work=$2/work
for package in "$1"/*.deb; do
    rm -rf "$work"
    dpkg-deb -R "$package" "$work"
    version=$(dpkg-deb -f "$package" Version)
    sed -i "s/^Version: .*/Version: 0.0.1/; s/(= $(printf %s "$version" | sed 's/[.+~]/\\&/g'))/(= 0.0.1)/g" "$work/DEBIAN/control"
    # All but the driver file of libibverbs, which has no comments.
    for file in $(grep -v '[.]driver$' "$work/DEBIAN/conffiles" 2>/dev/null || true); do
        echo '# of an older release' >>"$work$file"
    done
    name=$(dpkg-deb -f "$package" Package)
    echo 'no longer there in the next release' >"$work/usr/share/doc/$name/older"
    dpkg-deb --root-owner-group -Znone -b "$work" "$2/$name.deb" >/dev/null
done
rm -rf "$work"
