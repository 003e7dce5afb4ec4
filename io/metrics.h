/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h — DIRECTORY/metrics.jsonl, one object per line (private to io). All
 * Local. Fails: IO. */
#ifndef PT_IO_METRICS_H
#define PT_IO_METRICS_H

#include "penta/base/status.h"

#include <jansson.h>
#include <stdint.h>

enum { PT_METRICS_LINE = 1 << 16, PT_METRICS_WAITING = 1 << 18 };

typedef struct pt_metrics {
    int fd;                     /* -1: not open */
    char line[PT_METRICS_LINE]; /* a buffer: nothing may be allocated during a step */
    /* Complete lines that could not be written yet, for example on a full disk. */
    char waiting[PT_METRICS_WAITING];
    int64_t waiting_bytes, waiting_lines;
    int64_t missing; /* lines that did not fit into `waiting` */
} pt_metrics_t;

/* Drops lines of steps > last_step and lines that are incomplete or no object; then
 * opens the file for appending. */
pt_status_t pt_metrics_open(pt_metrics_t *metrics, const char *directory,
                            int64_t last_step);
/* Writes the waiting lines and this one in one write. After a failure none is written,
 * and they wait for the next call. */
pt_status_t pt_metrics_add(pt_metrics_t *metrics, const json_t *object);
/* Writes the waiting lines if the directory is still `ours`; warns of missing lines. */
void pt_metrics_close(pt_metrics_t *metrics, bool ours);

#endif
