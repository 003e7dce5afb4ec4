# Sourced before mpiexec is called on a machine of one's own, not in a batch job. Open MPI refuses to start
# as root and on more ranks than cores unless it is told that this is meant; MPICH looks at none of these.
# What is set already stays.
# SPDX-License-Identifier: Apache-2.0
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=${OMPI_ALLOW_RUN_AS_ROOT-1}
    export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM-1}
fi
# Open MPI 4 and 5: more ranks than cores.
export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe-1}
export PRTE_MCA_rmaps_default_mapping_policy=${PRTE_MCA_rmaps_default_mapping_policy-:oversubscribe}
