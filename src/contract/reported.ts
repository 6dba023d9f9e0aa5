import { z } from 'zod'

/** Numbers that a sandbox reports. Nothing real is larger: what is, counts as 0 and is told as such. */
export const maxReportedMs = 30 * 24 * 3_600_000
export const maxStepTokens = 10_000_000
export const maxStepCostUsd = 100_000
const maxChangedLines = 100_000_000

export const ReportedMs = z.number().min(0).max(maxReportedMs)
export const StepCount = z.number().min(0).max(maxStepTokens)
export const ChangedLines = z.number().int().min(0).max(maxChangedLines)
