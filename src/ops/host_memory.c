/* How much host memory is left, asked before it is touched: Linux grants more address space than it
 * has memory, and ends whoever fills it. */
#include "penta/device.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 4096, LINE_SIZE = 4352 };

/* First number behind `key` in a file of lines; the first of the file when `key` is "". */
static bool read_number(const char *path, const char *key, int64_t *out)
{
    char line[LINE_SIZE];
    bool found = false;
    FILE *file = fopen(path, "re");

    while (file && !found && fgets(line, sizeof line, file)) {
        long long number;
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%lld", &number) == 1;
        if (found)
            *out = number;
    }
    if (file)
        fclose(file);
    return found;
}

typedef struct group_files {
    const char *root, *limit, *usage, *cache;
} group_files_t;

static const group_files_t version2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                       "inactive_file "};
static const group_files_t version1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                       "memory.usage_in_bytes", "total_inactive_file "};

/* What one group may still take; cache that the kernel would drop counts as free. */
static int64_t group_available(const group_files_t *files, const char *group)
{
    char path[2 * PATH_SIZE];
    int64_t limit, usage, cache = 0;

    snprintf(path, sizeof path, "%s%s/%s", files->root, group, files->limit);
    if (!read_number(path, "", &limit)) /* "max" is no number: no limit */
        return INT64_MAX;
    snprintf(path, sizeof path, "%s%s/%s", files->root, group, files->usage);
    if (!read_number(path, "", &usage))
        return INT64_MAX;
    snprintf(path, sizeof path, "%s%s/memory.stat", files->root, group);
    (void)read_number(path, files->cache, &cache);
    usage = cache < usage ? usage - cache : 0;
    return limit > usage ? limit - usage : 0;
}

/* The group and all above it; inside a container the root is all that can be seen. */
static int64_t groups_available(const group_files_t *files, char *group)
{
    int64_t least = INT64_MAX;

    for (;;) {
        char *slash = strrchr(group, '/');
        int64_t available;
        if (slash && slash[1] == '\0')
            *slash = '\0';
        available = group_available(files, group);
        least = available < least ? available : least;
        slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/path" and "7:memory:/path". */
static int64_t control_groups_available(void)
{
    char line[LINE_SIZE];
    int64_t least = INT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");

    while (file && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        int64_t available = INT64_MAX;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (names[1] == '\0')
            available = groups_available(&version2, group);
        else if (strstr(names, "memory"))
            available = groups_available(&version1, group);
        least = available < least ? available : least;
    }
    if (file)
        fclose(file);
    return least;
}

int64_t pt_host_memory_available(void)
{
    int64_t kib, available = INT64_MAX, granted = control_groups_available();

    if (read_number("/proc/meminfo", "MemAvailable:", &kib) && kib < INT64_MAX / 1024)
        available = kib * 1024;
    return granted < available ? granted : available;
}
