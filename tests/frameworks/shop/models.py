"""The orders of the shop."""

from django.db import models


class Order(models.Model):
    article = models.CharField(max_length=100)
    user = models.CharField(max_length=100, default="")

    class Meta:
        app_label = "shop"
