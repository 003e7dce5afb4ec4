/* TEST np=1,2 backend=cpu timeout=60 */
/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is full when HDF5 closes a file: a failure like others, and no crash when
 * MPI ends. */
#include "regression/mpi/ranks.h"

#include "io/h5.h"
#include "penta/io/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int *descriptor = NULL, full = open("/dev/full", O_RDWR);
    char name[32];
    hid_t file;

    pt_checkpoint_before_mpi();
    ranks_start(&argc, &argv);
    ranks_open_engine(1);
    pt_h5_init();
    for (int i = 0; i < 3; i++) { /* as a save that is tried again */
        snprintf(name, sizeof name, "refused.%d.h5", ranks.rank);
        tap_all(pt_h5_create_file(name, &file) == PT_OK &&
                    H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&descriptor) >= 0 &&
                    dup2(full, *descriptor) == *descriptor,
                "a file is begun");
        tap_all(pt_h5_close_file(name, &file) == PT_IO && pt_error_last()->os_error != 0,
                "it cannot be closed");
        pt_error_clear();
    }
    tap_all(pt_h5_create_file(name, &file) == PT_OK &&
                pt_h5_close_file(name, &file) == PT_OK,
            "where there is room again, it can");
    ranks_close_engine();
    close(full);
    return ranks_finish();
}
