"""The roles of a judge: prompt in, typed values out; the offline `rules` judge; recordings."""
