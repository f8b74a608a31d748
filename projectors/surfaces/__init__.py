"""Surfaces over one `Memory`: thin, and where the parts are put together."""
