. /packages/common.sh
say "Removed, purged"
purge
