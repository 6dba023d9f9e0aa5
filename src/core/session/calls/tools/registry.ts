import {
  abilityAgent,
  abilityCancel,
  abilityList,
  abilityRun,
  abilityStatus,
  abilityValidate,
} from './abilities.ts'
import { automationComplete } from './automation-complete.ts'
import { memoryGet, memorySave, memorySearch, memoryUpdate } from './memory.ts'
import { saveSnapshot } from './save-snapshot.ts'
import { saveEnvFiles, saveServiceCommands } from './save-settings.ts'
import { skillPropose } from './skill-propose.ts'
import type { GatewayTool } from './tool.ts'
import { verify } from './verify.ts'

/** Every tool that the control plane executes for agents. */
export const gatewayTools: readonly GatewayTool[] = [
  verify,
  saveSnapshot,
  saveServiceCommands,
  saveEnvFiles,
  automationComplete,
  skillPropose,
  memorySearch,
  memoryGet,
  memorySave,
  memoryUpdate,
  abilityList,
  abilityRun,
  abilityStatus,
  abilityCancel,
  abilityAgent,
  abilityValidate,
]
