; A courier on a mountain road. Driving may cost the chain; a new chain lies in some villages; the ferry sails only in
; calm weather, which comes and goes. Without a chain nothing moves but what stands in the village.
(define (domain courier)
  (:requirements :typing :negative-preconditions :conditional-effects :non-deterministic)
  (:types village parcel)
  (:predicates
    (at ?v - village) (road ?v ?w - village) (ferry ?v ?w - village)
    (chain) (spare ?v - village) (calm)
    (lies ?p - parcel ?v - village) (carried ?p - parcel))
  (:action drive
    :parameters (?v ?w - village)
    :precondition (and (at ?v) (chain) (road ?v ?w))
    :effect (and (not (at ?v)) (at ?w) (oneof (and) (not (chain)))))
  (:action mend
    :parameters (?v - village)
    :precondition (and (at ?v) (spare ?v) (not (chain)))
    :effect (and (chain) (not (spare ?v))))
  (:action sail
    :parameters (?v ?w - village)
    :precondition (and (at ?v) (ferry ?v ?w))
    :effect (when (calm) (and (not (at ?v)) (at ?w))))
  (:action wait
    :effect (oneof (calm) (not (calm))))
  (:action load
    :parameters (?p - parcel ?v - village)
    :precondition (and (at ?v) (lies ?p ?v))
    :effect (and (not (lies ?p ?v)) (carried ?p)))
  (:action unload
    :parameters (?p - parcel ?v - village)
    :precondition (and (at ?v) (carried ?p))
    :effect (and (not (carried ?p)) (lies ?p ?v))))
