"""Many trainings on many machines, by Snakemake."""
