import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/promotion.ts'
import {
  Promotion,
  PromotionAsk,
  PromotionId,
  PromotionListQuery,
  PromotionResolve,
  PromotionRow,
} from '../../contract/promotion.ts'
import {
  listPromotions,
  resolvePromotion,
  viewPromotion,
} from '../../core/registry/evals/promotions.ts'
import { askForPromotion } from '../../core/verbs/promote-revision.ts'
import { promotionPorts } from '../kit/evals/eval-run-of.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'
import { datedPage } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'

nameSchemas(schemas)

const tag = 'evals'
const limitedKeys = 'obeyed'
const PromotionParam = z.object({ promotionId: PromotionId })

export const promotionRoutes = [
  route({
    id: 'askPromotion',
    method: 'post',
    path: '/v1/evals/promotions',
    summary: 'Ask people to release a revision although its suite does not let it',
    description: 'The same revision again is the same promotion.',
    tag,
    guard: 'write',
    limitedKeys,
    body: PromotionAsk,
    answers: ok(Promotion, 'The promotion: asked, or what it was already'),
    refuses: ['not_found', 'forbidden', 'not_configured'],
    answer: ({ deps, caller, body }) => askForPromotion(promotionPorts(deps), caller, body),
  }),

  route({
    id: 'listPromotions',
    method: 'get',
    path: '/v1/evals/promotions',
    summary: 'List what was released by which run or by whose word, newest first',
    tag,
    guard: 'read',
    limitedKeys,
    query: PromotionListQuery,
    answers: ok(listSchema(PromotionRow), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (before, limit) =>
        listPromotions(deps.db(), caller, query, { before, limit }),
      ),
  }),

  route({
    id: 'getPromotion',
    method: 'get',
    path: '/v1/evals/promotions/{promotionId}',
    summary: 'Get a promotion, with who has said what',
    tag,
    guard: 'read',
    limitedKeys,
    params: PromotionParam,
    answers: ok(Promotion, 'The promotion'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => viewPromotion(deps.db(), caller, params.promotionId),
  }),

  route({
    id: 'resolvePromotion',
    method: 'post',
    path: '/v1/evals/promotions/{promotionId}/resolve',
    summary: 'Approve or reject the release of exactly the revision that the hash names',
    tag,
    guard: 'approve',
    limitedKeys,
    params: PromotionParam,
    body: PromotionResolve,
    answers: ok(Promotion, 'The promotion: asked until its quorum is reached'),
    refuses: ['forbidden', 'not_found', 'wrong_state'],
    answer({ deps, caller, params, body }) {
      const at = { db: deps.db(), crypto: deps.crypto, now: deps.now() }
      return resolvePromotion(at, caller, params.promotionId, body)
    },
  }),
]
