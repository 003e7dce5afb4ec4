/* SPDX-License-Identifier: Apache-2.0 */
/* private.h — shared by the files of src/cmd only: the commands, in the order of the
 * help text. */
#ifndef PENTA_CMD_PRIVATE_H
#define PENTA_CMD_PRIVATE_H

#include "penta/cmd/cmd.h"

extern const pt_command_t pt_command_train, pt_command_plan, pt_command_inspect,
    pt_command_sample, pt_command_status;

/* ---- output.c ---- */
/* Whether stdout is a pipe or socket whose reader has closed it (penta plan | head).
 * Not a failure. */
bool pt_output_is_unread(void);

#endif
