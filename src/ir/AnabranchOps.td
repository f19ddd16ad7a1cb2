//===- AnabranchOps.td - everything, for tablegen ---------------*- tablegen -*-===//
include "AtenOps.td"
include "ScheduleOps.td"
