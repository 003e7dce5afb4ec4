/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h — injected failures, for tests (layer: base).
 *
 * PENTA_FAULT=site:rank:step:kind[,…] makes pt_fault(site) fail on that rank at that
 * step. '*' matches any rank or step; rank and step come from the log context.
 * doc/errors.md lists the sites. The kinds:
 *   kill, exit, segv  end the process (kill: SIGKILL)
 *   sleep             sleeps for ever
 *   stop              SIGSTOP
 *   slow              takes a second longer
 *   io, nospace       fail with IO; nospace as ENOSPC would
 *   nan               the caller stores a NaN
 *   skip, resize      omit a collective, or shorten a block of it, once
 *
 * Costs one branch if the variable is unset. */
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

/* Reads the variable. Common: every rank gets the same status. Fails: CONFIG for a
 * malformed value, a site that src/base/fault.def lacks, or a kind that the site does
 * not support. */
pt_status_t pt_fault_init(void);
/* Warns on rank 0 that failures are armed, and about those for a rank that does not
 * exist. */
void pt_fault_announce(void);
/* Acts (kill, sleep …), or returns the kind that the caller has to act on. */
pt_fault_kind_t pt_fault(const char *site);

#endif
