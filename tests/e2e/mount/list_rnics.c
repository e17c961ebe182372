/* A static program, which LD_PRELOAD does not reach: prints the names in /sys/class/infiniband, or why there are none. */
#include <dirent.h>
#include <stdio.h>

int main(void) {
    DIR *names = opendir("/sys/class/infiniband");
    if (names == NULL) {
        perror("/sys/class/infiniband");
        return 1;
    }
    for (struct dirent *name; (name = readdir(names)) != NULL;) {
        if (name->d_name[0] != '.') puts(name->d_name);
    }
    return 0;
}
