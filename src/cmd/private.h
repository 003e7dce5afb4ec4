/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of cmd.h: one row a subcommand, in the order of the help text. */
#ifndef PENTA_CMD_PRIVATE_H
#define PENTA_CMD_PRIVATE_H

#include "penta/cmd/cmd.h"

extern const pt_command_t pt_command_train, pt_command_plan, pt_command_inspect,
    pt_command_sample, pt_command_status;

/* ---- output.c ---- */
/* Stdout is a pipe or socket that nobody reads any more (penta plan | head): enough was read, no failure. */
bool pt_output_is_unread(void);

#endif
