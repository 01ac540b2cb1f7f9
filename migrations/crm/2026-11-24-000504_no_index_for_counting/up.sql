-- What the deals of a step come to was counted in this index alone until 000502 kept it. Nobody needs it since: a count under a filter reads rows, by whatever finds them.
drop index deal_totals;
