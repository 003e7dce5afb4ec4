/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h — DIRECTORY/metrics.jsonl, one object a line (private to io). All Local, IO. */
#ifndef PT_IO_METRICS_H
#define PT_IO_METRICS_H

#include "penta/base/status.h"

#include <jansson.h>
#include <stdint.h>

enum { PT_METRICS_LINE = 1 << 16, PT_METRICS_WAITING = 1 << 18 };

typedef struct pt_metrics {
    int fd;                     /* -1: not open */
    char line[PT_METRICS_LINE]; /* metrics are added where nothing may be allocated */
    /* Whole lines that could not be written yet: a disk may be full for a moment. */
    char waiting[PT_METRICS_WAITING];
    int64_t waiting_bytes, waiting_lines;
    int64_t missing; /* lines for which there was no room there, either */
} pt_metrics_t;

/* Drops lines of steps > last_step, and what is no object or has no end of line; then opens to append. */
pt_status_t pt_metrics_open(pt_metrics_t *metrics, const char *directory,
                            int64_t last_step);
/* One write, of the lines that wait and this one: all are written or, when it fails, none, and they wait for the
 * next call. */
pt_status_t pt_metrics_add(pt_metrics_t *metrics, const json_t *object);
/* Writes what waits, if the directory is still `ours`; a warning where lines are missing. */
void pt_metrics_close(pt_metrics_t *metrics, bool ours);

#endif
