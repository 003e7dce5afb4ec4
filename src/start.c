/* SPDX-License-Identifier: Apache-2.0 */
/* Sets environment variables before the constructors of the libraries, which read them
 * and start threads. */
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* Neither the C library nor the sanitizers are initialised: only system calls work. */
#define EARLY __attribute__((no_sanitize("address", "undefined")))

/* On shared cores, threads that spin at a barrier take whole time slices from the
 * threads they wait for. */
static const char wait_passively[] = "OMP_WAIT_POLICY=passive";
/* By default OpenBLAS starts a thread for each CPU, with 128 MiB of address space each,
 * and retries for ever if a limit (ulimit -v) denies them. The device starts the
 * threads it needs (run.threads). */
static const char one_thread[] = "OPENBLAS_NUM_THREADS=1";

/* Whether `entry` sets the same variable as `setting`. */
EARLY static bool has_name(const char *entry, const char *setting)
{
    for (; *entry == *setting && *entry != '\0'; entry++, setting++)
        if (*entry == '=')
            return true;
    return false;
}

EARLY static bool is_same(const char *a, const char *b)
{
    for (; *a == *b; a++, b++)
        if (*a == '\0')
            return true;
    return false;
}

/* Executes the program again with these settings, unless they are already there.
 * Blocked signals stay blocked. */
EARLY static void start(int argc, char **argv, char **environment)
{
    size_t count = 0, kept = 0;
    bool waits = false, single = true;

    (void)argc;
    while (environment[count] != NULL)
        count++;
    const char *changed[count + 3];
    for (size_t i = 0; i < count; i++) {
        const char *entry = environment[i];
        if (has_name(entry, wait_passively))
            waits = true;
        if (has_name(entry, one_thread))
            single = is_same(entry, one_thread) && single;
        else
            changed[kept++] = entry;
    }
    if (waits && single && kept < count)
        return;
    if (!waits)
        changed[kept++] = wait_passively;
    changed[kept++] = one_thread;
    changed[kept] = NULL;
    (void)execve("/proc/self/exe", argv, (char **)changed);
}

typedef void (*start_fn)(int, char **, char **);
__attribute__((section(".preinit_array"), used)) static const start_fn early = start;
