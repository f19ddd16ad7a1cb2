"""What Dynamo's guards cost a call. Start with `passed`.

passed   lets guards that passed once pass while nothing that they read has changed
reads    what each guard reads
walk     what a guard's value depends on, on the way from a local or global variable
seen     what a trace has read, and whether it is the same still
sources  the steps that a source of Dynamo's takes
"""
