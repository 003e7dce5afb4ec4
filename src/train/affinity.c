/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs for the threads of the ranks of a host. */
#include "penta/base/log.h"
#include "penta/base/text.h"
#include "src/train/private.h"

#include <dirent.h>
#include <unistd.h>

static void affinity_warn_of_oversubscription(const pt_trainer_t *t)
{
    cpu_set_t mine;
    int ranks = pt_engine_ranks_on_host(t->machine.engine),
        threads = t->machine.device->threads;
    int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN);
    /* Where ranks are bound, each may use a part of them. */
    int64_t allowed =
        sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : cpus;
    if (threads > allowed)
        pt_log_root(
            PT_LOG_WARN,
            "a rank has %d threads and may use %lld CPUs: lower run.threads, or "
            "bind ranks to more",
            threads, (long long)allowed);
    else if ((int64_t)ranks * threads > cpus)
        pt_log_root(
            PT_LOG_WARN,
            "%d ranks with %d thread%s each share the %lld CPUs of a host and take "
            "turns: start fewer ranks, or lower run.threads",
            ranks, threads, threads == 1 ? "" : "s", (long long)cpus);
}

bool pt_train_choose_cpus(const cpu_set_t *allowed, int ranks, int rank, int threads,
                          cpu_set_t *out)
{
    int64_t place = -1, first = (int64_t)rank * threads;
    CPU_ZERO(out);
    if (ranks < 2 || (int64_t)ranks * threads != CPU_COUNT(allowed))
        return false;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        place += CPU_ISSET(cpu, allowed) != 0;
        if (CPU_ISSET(cpu, allowed) && place >= first && place < first + threads)
            CPU_SET(cpu, out);
    }
    return true;
}

/* All threads of the process: libraries have begun some of theirs. One that ends
 * meanwhile, or may not be bound, is no harm. */
static void affinity_bind_threads(const cpu_set_t *cpus)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    if (tasks == NULL)
        return;
    while ((entry = readdir(tasks)) != NULL) {
        int64_t thread;
        if (pt_text_int(entry->d_name, &thread))
            (void)sched_setaffinity((pid_t)thread, sizeof *cpus, cpus);
    }
    closedir(tasks);
}

void pt_train_settle_threads(const pt_trainer_t *t)
{
    cpu_set_t allowed, mine;
    affinity_warn_of_oversubscription(t);
    if (t->config->run.bind && sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
        pt_train_choose_cpus(&allowed, pt_engine_ranks_on_host(t->machine.engine),
                             pt_engine_rank_on_host(t->machine.engine),
                             t->machine.device->threads, &mine))
        affinity_bind_threads(&mine);
}
