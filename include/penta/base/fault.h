/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h — injected failures, for drills (layer: base).
 *
 * PENTA_FAULT=site:rank:step:kind[,…] makes pt_fault(site) on that rank at that step do what
 * the kind says: kill (SIGKILL), exit, segv, sleep (for ever), stop (SIGSTOP), slow (takes a second more), io
 * (fails IO), nospace (fails as ENOSPC), nan (caller poisons), skip and resize (a
 * collective is left out, or a block of it is shorter; once). '*' matches any rank or step. Sites: doc/errors.md. Rank and step come
 * from the log context. Costs one branch when the variable is unset. */
#ifndef PENTA_FAULT_H
#define PENTA_FAULT_H

#include "penta/base/status.h"

typedef enum pt_fault_kind {
    PT_FAULT_NONE,
    PT_FAULT_IO,
    PT_FAULT_NOSPACE,
    PT_FAULT_NAN,
    PT_FAULT_SKIP,
    PT_FAULT_RESIZE
} pt_fault_kind_t;

/* Reads the variable. Common: a malformed one, a site not in src/base/fault.def, or a kind that it has not there
 * is CONFIG. */
pt_status_t pt_fault_init(void);
/* Warns, on rank 0, that failures are armed, and of those for a rank that does not exist. */
void pt_fault_announce(void);
/* Acts (kill, sleep …) or returns what the caller has to do. */
pt_fault_kind_t pt_fault(const char *site);

#endif
